"""Wrong decisions at the port: whose page asks, which token is live, which body is too large, whose log it is."""

from __future__ import annotations

from tests.planted.bug import Bug

ACCESS = "tests/server/test_access.py"
HTTP = "tests/server/test_http.py"
LOG = "tests/server/test_log.py"

BUGS = [
    Bug(
        "pages_of_others_may_ask",
        "web/access",
        "A page of another site may use the broker in its reader's name.",
        '        if origin is not None and origin.partition("://")[2] != connection.headers.get("host"):\n',
        '        if origin == "null":\n',
        (f"{HTTP}::test_others_pages_are_refused",),
        costly=True,
    ),
    Bug(
        "every_host_name_is_answered",
        "web/access",
        "A request for another host name is answered, so that a rebound DNS name reaches the broker.",
        "        if host not in self._hosts:\n",
        "        if not host:\n",
        (f"{HTTP}::test_others_pages_are_refused",),
        costly=True,
    ),
    Bug(
        "expired_tokens_are_live",
        "runtime/broker/tokens",
        "A token lives on after it has expired.",
        "return token.expires is None or token.expires > time.time()",
        "return token.expires is None or token.expires > 0",
        (f"{ACCESS}::test_without_a_good_token_nothing_is_shown",),
        costly=True,
    ),
    Bug(
        "the_last_line_of_a_body_is_dropped",
        "web/bodies",
        "The last line of NDJSON is not read when no newline ends it.",
        'lines = (line for line in text.split("\\n") if line.strip())',
        'lines = (line for line in text.split("\\n")[:-1] if line.strip())',
        (f"{HTTP}::test_events_come_in_several_forms",),
        costly=True,
    ),
    Bug(
        "half_a_surrogate_pair_is_text",
        "web/bodies",
        "Half of a surrogate pair is accepted and cannot be written to the disk.",
        "    if has_half:\n",
        "    if not parsed:\n",
        (f"{HTTP}::test_what_cannot_be_written_to_the_disk_is_refused_and_harms_no_other_client",),
        costly=True,
    ),
    Bug(
        "a_compressed_body_is_read_as_it_is",
        "web/bodies",
        "Content-Encoding is ignored.",
        '    if request.headers.get("content-encoding", "identity") != "identity":\n',
        '    if request.headers.get("content-encoding", "identity") == "unknown":\n',
        (f"{HTTP}::test_a_body_is_not_unpacked",),
        costly=True,
    ),
    Bug(
        "a_slash_in_an_id_ends_it",
        "web/addresses",
        "An id with an escaped slash is taken for two parts of a path.",
        "        if _SLASH.search(raw):\n",
        "        if not raw:\n",
        (f"{HTTP}::test_an_id_may_be_any_text_and_its_place_is_an_address",),
        costly=True,
    ),
    Bug(
        "cursors_of_a_former_life_are_taken",
        "web/endpoints/delivery_log",
        "A cursor of a life whose disk was lost names a message of this life.",
        "        if cursor.epoch != self._queue.epoch:\n",
        "        if cursor.epoch > self._queue.epoch:\n",
        (f"{LOG}::test_what_a_reader_of_a_log_can_get_wrong",),
        costly=True,
    ),
    Bug(
        "what_is_gone_is_skipped_silently",
        "web/endpoints/delivery_log",
        "A reader whose cursor is beyond retention gets the next message and no word of what is missing.",
        "    if after < log.first:\n",
        "    if after < 0:\n",
        (f"{LOG}::test_what_is_beyond_retention_is_said_to_be_gone",),
        costly=True,
    ),
    Bug(
        "errors_have_no_security_headers",
        "web/failures",
        "An answer that repeats what was sent has no Content-Security-Policy.",
        '            if message["type"] == "http.response.start":\n',
        '            if message["type"] == "http.response.start" and message["status"] < 400:\n',
        ("tests/server/test_pages.py::test_an_error_that_repeats_what_was_sent_is_never_a_page",),
        costly=True,
    ),
]
