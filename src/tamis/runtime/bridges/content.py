"""Messages as events, and matches as messages: what all bridges share of content."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec

from tamis.errors import ModelError
from tamis.routing.edge.limits import MAX_EVENT

__all__ = ["check_template", "destination_of", "event_of_message"]

#: The attribute of a payload that is JSON and no object.
VALUE = "value"

_FIELD = re.compile(r"\{(\w+)\}")

#: What is never a character of a destination.
_NEVER = "%\x7f" + "".join(map(chr, range(32)))


def event_of_message(source: str, payload: bytes, attribute: str = "topic") -> dict[str, Any]:
    """Return the event that a message means, with its source under ``attribute``; `ModelError` when it means none.

    >>> event_of_message("sensors/7", b'{"celsius": 21.5}'), event_of_message("a.b", b"21.5", "subject")
    ({'celsius': 21.5, 'topic': 'sensors/7'}, {'value': 21.5, 'subject': 'a.b'})
    """
    if len(payload) > MAX_EVENT:
        raise ModelError(f"{attribute} {source!r}: {len(payload):,} bytes are more than the {MAX_EVENT:,} of an event")
    try:
        content = msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ModelError(f"{attribute} {source!r}: not JSON ({error})") from None
    event: dict[str, Any] = content if isinstance(content, dict) else {VALUE: content}
    event[attribute] = source
    return event


def check_template(template: str) -> None:
    """Raise `ModelError` unless a template has names and fields only."""
    rest = _FIELD.sub("", template)
    if set(rest) & set("+#*>{}") or not rest.isprintable() or " " in rest:
        raise ModelError(f"--out {template!r}: expected names and fields such as 'alerts/{{id}}', no wildcards")


def destination_of(template: str, id: object, event: Mapping[str, Any], reserved: str = "/+#") -> str:
    """Return where a match goes: ``{id}`` is the subscription, any other field an attribute of the event.

    What is ``reserved`` in a value, such as a separator of levels or a wildcard, is written as ``%2F``.

    >>> destination_of("alerts/{id}/{place}", "strong", {"place": "Fiji/Tonga"})
    'alerts/strong/Fiji%2FTonga'
    """
    if "{" not in template:
        return template
    values = {**event, "id": id}
    escapes = _escapes(reserved)
    return _FIELD.sub(lambda field: str(values.get(field[1], "null")).translate(escapes) or "null", template)


@cache
def _escapes(reserved: str) -> dict[int, str]:
    return {ord(character): f"%{ord(character):02X}" for character in _NEVER + reserved}
