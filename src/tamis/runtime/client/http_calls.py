"""A broker over plain HTTP, for programs that keep their own place: read by cursor, acknowledge, publish once.

Nearly every call may be made twice with the effect of one, so a call that fails on the way is made again, with growing
pauses, until ``patience`` is over: callers do not notice a restart of the broker. With several addresses, those of a
broker and its standbys, each is tried in turn, and callers do not notice a take-over. Only the standard library is
needed, for this runs in Spark's workers, too.
"""

from __future__ import annotations

import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from tamis.errors import ConnectionLostError, RefusedError
from tamis.model.subscription import DEFAULT_NAMESPACE
from tamis.runtime.broker_addresses import BrokerAddresses
from tamis.runtime.dialling import longer_pause, words_of_failure

__all__ = ["HttpCalls", "LogPage"]

#: Seconds before a call is made again at first, and until one counts as lost.
FIRST_PAUSE, DEADLINE = 0.05, 30.0

#: The same with several addresses: a broker that hangs is left after this time.
DEADLINE_OF_SEVERAL = 10.0

#: Seconds for a connection: the host may be away, and then nothing says so.
CONNECT_SECONDS = 5.0

#: Statuses after which the same call may succeed later: the broker starts, or its disk is full.
_LATER = frozenset({502, 503, 504, 507})

#: Those of a proxy before the broker, which may have passed the call on.
_OF_A_PROXY = frozenset({502, 504})


class LogPage(msgspec.Struct, frozen=True):
    """A page of a subscription's log, and where the log stands; see ``GET /v1/subscriptions/{id}/log``."""

    first: str
    acknowledged: str
    last: str
    next: str
    messages: list[dict[str, Any]]


@dataclass(frozen=True)
class HttpCalls:
    """Calls about one namespace to the broker at ``url``; several addresses are its own and those of its standbys."""

    url: str | Sequence[str]
    token: str = field(default="", repr=False)
    namespace: str = DEFAULT_NAMESPACE
    #: Seconds to go on trying.
    patience: float = 60.0
    #: Whether the token may be sent unencrypted to another machine.
    insecure: bool = False
    #: Called when a call fails on the way and is made again, once for each call; the text says why.
    on_trouble: Callable[[str], object] | None = field(default=None, repr=False, compare=False)
    #: Where the broker is.
    addresses: BrokerAddresses = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "addresses", BrokerAddresses(self.url))
        self.addresses.check(self.token, insecure=self.insecure, with_websockets=False)

    def subscribe(self, id: str, filter: str) -> None:
        """Make a durable subscription, unless it exists; an existing one must have the same filter."""
        try:
            body = {"id": id, "filter": filter, "namespace": self.namespace, "durable": True}
            self.call("POST", "/v1/subscriptions", body=msgspec.json.encode(body))
        except RefusedError as error:
            if error.code != 409:
                raise
            path = f"/v1/subscriptions/{quote(id, safe='')}"
            existing = msgspec.json.decode(self.call("GET", path, self._namespace_query()))
            if existing["filter"] != filter:
                raise RefusedError(
                    409, f"subscription {id!r} exists already, with the filter {existing['filter']}"
                ) from None

    def read_log(self, id: str, *, after: str = "", upto: str = "", limit: int = 1_000) -> LogPage:
        """Return messages behind a cursor, up to another one; ``limit=0`` returns only the bounds of the log."""
        bounds = {name: value for name, value in (("after", after), ("upto", upto)) if value}
        answer = self.call("GET", self._of(id, "log"), self._namespace_query() | bounds | {"limit": str(limit)})
        return msgspec.json.decode(answer, type=LogPage)

    def acknowledge(self, id: str, cursor: str) -> None:
        """Acknowledge everything up to a cursor."""
        self.call("POST", self._of(id, "acknowledge"), self._namespace_query(), msgspec.json.encode({"cursor": cursor}))

    def publish_once(self, events: bytes, *, producer: str, number: int, after: int | None = None) -> bool:
        """Publish a batch as NDJSON unless this number of the producer was taken before; returns whether it is new.

        With ``after`` a broker whose last number of the producer is another one refuses the batch (409).
        """
        query = self._namespace_query() | {"producer": producer, "number": str(number)}
        query |= {} if after is None else {"after": str(after)}
        answer = self.call("POST", "/v1/events", query, events, "application/x-ndjson")
        return not msgspec.json.decode(answer)["duplicate"]

    def find_number(self, producer: str) -> int | None:
        """Return the last number that the broker has taken of a producer; None when it has taken none."""
        answer = self.call("GET", f"/v1/producers/{quote(producer, safe='')}")
        number: int | None = msgspec.json.decode(answer)["number"]
        return number

    def read_audit(self, *, before: int | None = None, limit: int = 100) -> dict[str, Any]:
        """Return a page of the audit, the newest first, and the ``before`` of the next page as ``next``."""
        query = {"limit": str(limit)} | ({} if before is None else {"before": str(before)})
        page: dict[str, Any] = msgspec.json.decode(self.call("GET", "/v1/audit", query))
        return page

    # Inside

    def _of(self, id: str, action: str) -> str:
        return f"/v1/subscriptions/{quote(id, safe='')}/{action}"

    def _namespace_query(self) -> dict[str, str]:
        return {"namespace": self.namespace}

    def call(
        self,
        method: str,
        path: str,
        query: dict[str, str] | None = None,
        body: bytes | None = None,
        kind: str = "application/json",
        *,
        wait: float = 0.0,
        may_repeat: bool = True,
    ) -> bytes:
        """Return the body of the broker's answer; `RefusedError` has its status and reason.

        ``wait``: seconds for which the broker may keep the call waiting. A call with ``may_repeat=False`` is made
        again only if the broker cannot have received the one before.
        """
        target = path + (f"?{urlencode(query)}" if query else "")
        is_impatient = self.addresses.has_others and may_repeat
        deadline = wait + DEADLINE_OF_SEVERAL if is_impatient else DEADLINE
        pause, end, tell = FIRST_PAUSE, time.monotonic() + self.patience, self.on_trouble
        problems: dict[str, str] = {}
        while True:
            url = self.addresses.current
            request = urllib.request.Request(url.rstrip("/") + target, body, {"Content-Type": kind}, method=method)
            try:
                return self._try(request, deadline)
            except _NoAnswerError as error:
                problems[url] = error.problem
                if error.is_uncertain and not may_repeat:
                    problem = f"no answer: {error.problem}; it may have done what it was asked"
                    raise ConnectionLostError(url, problem) from None
            self.addresses.leave(url)
            if len(problems) < len(self.addresses):
                continue
            trouble = _joined(problems)
            if time.monotonic() + pause > end:
                within = f" within {self.patience:g} s" if self.patience else ""
                raise ConnectionLostError(str(self.addresses), f"no answer{within}: {trouble}")
            if tell is not None:
                tell(trouble)
                tell = None
            time.sleep(pause)
            pause = longer_pause(pause, len(self.addresses))

    def _try(self, request: urllib.request.Request, deadline: float) -> bytes:
        """Send a request once; `_NoAnswerError` unless the broker answers it for good."""
        if self.token:
            request.add_unredirected_header("Authorization", f"Bearer {self.token}")
        try:
            with _opener.open(request, timeout=deadline) as answer:
                return bytes(answer.read())
        except urllib.error.HTTPError as error:
            if error.code not in _LATER:
                raise RefusedError(error.code, _reason(error)) from None
            raise _NoAnswerError(_reason(error), is_uncertain=error.code in _OF_A_PROXY) from None
        except urllib.error.URLError as error:  # it was not sent as a whole
            reason = error.reason
            problem = words_of_failure(reason) if isinstance(reason, Exception) else str(reason)
            raise _NoAnswerError(problem, is_uncertain=False) from None
        except (OSError, http.client.HTTPException) as error:
            raise _NoAnswerError(words_of_failure(error), is_uncertain=True) from None


class _NoAnswerError(Exception):
    """A broker did not answer, or will later; ``is_uncertain``: it may have received the request."""

    def __init__(self, problem: str, *, is_uncertain: bool) -> None:
        super().__init__(problem)
        self.problem = problem
        self.is_uncertain = is_uncertain


def _joined(problems: dict[str, str]) -> str:
    """Return why each address did not answer; the only one is not named."""
    if len(problems) == 1:
        return next(iter(problems.values()))
    return "; ".join(f"{url}: {problem}" for url, problem in problems.items())


def _reason(error: urllib.error.HTTPError) -> str:
    """Return the error in the broker's answer, or its status when the answer has none."""
    with error:
        text = error.read(64 * 1024)
    try:
        return str(msgspec.json.decode(text)["error"])
    except (msgspec.DecodeError, KeyError, TypeError):
        return f"{error.code} {error.reason}"


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: a broker never sends one, and a token must not be sent to another address."""

    def redirect_request(self, *_: Any) -> None:
        return None


class _Connection(http.client.HTTPConnection):
    """A connection that is made within `CONNECT_SECONDS`; answers may take longer."""

    def connect(self) -> None:
        deadline, self.timeout = self.timeout, CONNECT_SECONDS
        super().connect()
        self.sock.settimeout(deadline)


class _TlsConnection(http.client.HTTPSConnection):
    """The same over TLS."""

    def connect(self) -> None:
        deadline, self.timeout = self.timeout, CONNECT_SECONDS
        super().connect()
        self.sock.settimeout(deadline)


class _Http(urllib.request.HTTPHandler):
    def http_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_Connection, request)


class _Https(urllib.request.HTTPSHandler):
    def https_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_TlsConnection, request)


# No proxy: the proxy that the environment names cannot reach a broker of this machine.
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect, _Http, _Https)
