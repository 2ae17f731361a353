"""What people post: events as one JSON object, NDJSON, a JSON array or CloudEvents; bounded before it is read."""

from __future__ import annotations

import json
import re
from typing import Any, TypeVar

from starlette.requests import Request

from tamis.errors import EventError, LimitError, ModelError, RefusedError
from tamis.files.strict_json import read_object, read_value
from tamis.routing.edge.admission import MAX_EVENT_WITH_REGION

__all__ = [
    "MAX_BODY",
    "MAX_EVENTS",
    "MAX_PAGE",
    "read_body",
    "read_events",
    "read_json",
    "read_objects",
    "whole_number",
]

#: Bytes and events of one request.
MAX_BODY, MAX_EVENTS = 16 * 1024 * 1024, 10_000

#: Subscriptions, events or deliveries on one page.
MAX_PAGE = 1_000

#: How lines of JSON are called.
_LINES = frozenset({"application/x-ndjson", "application/jsonl", "application/ndjson"})

#: An escape that may be half of a pair.
_HALF = re.compile(r"\\u[dD][89a-fA-F]")

_Json = TypeVar("_Json")

_CONTEXT = ("id", "source", "type", "subject", "time", "dataschema")


async def read_body(request: Request, limit: int = MAX_BODY) -> str:
    """Return the text of a request; it is never read beyond the limit, and never unpacked (promise S15)."""
    if request.headers.get("content-encoding", "identity") != "identity":
        raise RefusedError(415, "send the body as it is, without Content-Encoding")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > limit:
            raise LimitError("bytes of a request", len(body), limit)
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise RefusedError(400, f"not UTF-8 text ({error.reason})") from None


async def read_json(request: Request, limit: int = MAX_EVENT_WITH_REGION) -> dict[str, Any]:
    """Return the object that a request holds, strictly read."""
    return _object(await read_body(request, limit), None)


async def read_objects(request: Request) -> tuple[list[dict[str, Any]], bool]:
    """Return the objects of a request, one by itself, a JSON array or NDJSON; and whether it is one by itself."""
    text = await read_body(request)
    if _kind(request) in _LINES:
        return _lines(text), False
    if text.lstrip().startswith("["):
        return _array(text), False
    if len(text.encode()) > MAX_EVENT_WITH_REGION:
        raise LimitError("bytes of a request", len(text.encode()), MAX_EVENT_WITH_REGION)
    return [_object(text, None)], True


async def read_events(request: Request) -> list[dict[str, Any]]:
    """Return the events of a request, whichever way they were written."""
    kind = _kind(request)
    text = await read_body(request)
    if kind == "application/cloudevents+json":
        events = [_structured(_object(text, None), None)]
    elif kind == "application/cloudevents-batch+json":
        events = [_structured(one, row) for row, one in enumerate(_array(text))]
    elif "ce-specversion" in request.headers:
        context = {name: request.headers[f"ce-{name}"] for name in _CONTEXT if f"ce-{name}" in request.headers}
        events = [_with_context(_object(text, None), context, None)]
    elif kind in _LINES:
        events = _lines(text)
    elif text.lstrip().startswith("["):
        events = _array(text)
    else:
        events = [_object(text, None)]
    if len(events) > MAX_EVENTS:
        raise LimitError("events of one request", len(events), MAX_EVENTS)
    return events


def _kind(request: Request) -> str:
    return request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()


def _lines(text: str) -> list[dict[str, Any]]:
    lines = [line for line in text.split("\n") if line.strip()]
    return [_object(line, row) for row, line in enumerate(lines)]


def _object(text: str, row: int | None) -> dict[str, Any]:
    try:
        return _writable(read_object(text), text)
    except ValueError as error:
        where = "" if row is None else f"line {row}: "
        raise RefusedError(400, f"{where}{error}") from None


def _array(text: str) -> list[dict[str, Any]]:
    try:
        found = _writable(read_value(text), text)
    except ValueError as error:
        raise RefusedError(400, str(error)) from None
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise RefusedError(400, "expected a JSON array of objects")
    return found


def _writable(found: _Json, text: str) -> _Json:
    """Return what was read; ValueError when a string of it is no text, because an escape is half of a pair."""
    if _HALF.search(text):
        try:
            json.dumps(found, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            half = f"\\u{ord(error.object[error.start]):04x}"
            raise ValueError(f"{half} is half of a surrogate pair, which is not text") from None
    return found


def _structured(one: dict[str, Any], row: int | None) -> dict[str, Any]:
    if one.get("specversion") != "1.0":
        raise EventError("specversion", one.get("specversion"), "expected a CloudEvent of version 1.0", row)
    context = {name: one[name] for name in _CONTEXT if name in one}
    return _with_context(one.get("data"), context, row)


def _with_context(data: object, context: dict[str, Any], row: int | None) -> dict[str, Any]:
    """Return the attributes of a CloudEvent: its data, and its context with ``ce_`` in front."""
    missing = [name for name in ("id", "source", "type") if not isinstance(context.get(name), str) or not context[name]]
    if missing:
        raise EventError(missing[0], context.get(missing[0]), "a CloudEvent has an id, a source and a type", row)
    if not isinstance(data, dict):
        raise EventError("data", data, "expected a JSON object as the data of a CloudEvent", row)
    return {f"ce_{name}": value for name, value in context.items()} | data


def whole_number(text: str, name: str, most: int) -> int:
    """Return a number of a query; `ModelError` names it when it is none."""
    if not (text.isascii() and text.isdecimal()) or len(text) > 16 or int(text) > most:
        raise ModelError(f"{name}: expected a whole number from 0 to {most}, got {text[:40]!r}")
    return int(text)
