"""Bodies of requests: events as a JSON object, NDJSON, a JSON array or CloudEvents; bounded before they are parsed.

Bytes and lines are counted chunk by chunk, the items of an array as they are parsed, and a long list gives way to other
requests between two items. The limits are in `tamis.routing.edge.limits`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import time
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request

from tamis.errors import EventError, LimitError, ModelError, RefusedError
from tamis.files.strict_json import array_objects, read_object
from tamis.model.strict_json import read_flat
from tamis.routing.edge.limits import (
    BODY_SECONDS,
    LONG_JSON,
    MAX_BODY,
    MAX_EVENT_TEXT,
    MAX_EVENT_WITH_REGION,
    MAX_EVENTS,
    MAX_PAGE,
    MAX_SUBSCRIPTIONS_AT_ONCE,
)
from tamis.web.intake import principal_of
from tamis.web.server import server_of
from tamis.web.work.pacing import SLICE_SECONDS

__all__ = [
    "MAX_PAGE",
    "read_events",
    "read_json",
    "read_objects",
    "whole_number",
]

#: Bytes beyond a limit that are read before the error is sent, and the seconds for that.
MAX_DROPPED, DROP_SECONDS = 16 * 1024 * 1024, 1.0

#: Content types of NDJSON.
_LINES = frozenset({"application/x-ndjson", "application/jsonl", "application/ndjson"})

#: An escape that may be half of a surrogate pair.
_HALF = re.compile(r"\\u[dD][89a-fA-F]")

_Json = TypeVar("_Json")

_CONTEXT = ("id", "source", "type", "subject", "time", "dataschema")


async def read_json(request: Request, limit: int = MAX_EVENT_WITH_REGION) -> dict[str, Any]:
    """Return the JSON object in the body of a request."""
    return await _parse_one(request, await _read_body(request, limit))


async def _parse_one(request: Request, text: str) -> dict[str, Any]:
    """Return the object of a text; a long one is parsed beside the event loop."""
    if len(text) <= LONG_JSON:
        return _object(text, None)
    return await server_of(request).pace(principal_of(request)).beside(lambda: _object(text, None))


async def read_objects(request: Request) -> tuple[list[dict[str, Any]], bool]:
    """Return the subscriptions of a request (an object, a JSON array or NDJSON), and whether it was a single object."""
    text = await _read_body(request, most=MAX_SUBSCRIPTIONS_AT_ONCE)
    items = _items(request, text)
    if items is None:
        _check_length(text, MAX_EVENT_WITH_REGION)
        return [await _parse_one(request, text)], True
    is_long = len(text) > LONG_JSON
    return await _counted(request, items, "subscriptions of one request", MAX_SUBSCRIPTIONS_AT_ONCE, is_long), False


async def read_events(request: Request) -> list[dict[str, Any]]:
    """Return the events of a request in any of the formats."""
    kind = _kind(request)
    text = await _read_body(request, most=MAX_EVENTS)
    items = _items(request, text)
    if kind == "application/cloudevents-batch+json":
        items = (_structured(event, row) for row, event in enumerate(_array(text)))
    if items is not None and "ce-specversion" not in request.headers:
        return await _counted(request, items, "events of one request", MAX_EVENTS, len(text) > LONG_JSON)
    _check_length(text, MAX_EVENT_TEXT)
    event = await _parse_one(request, text)
    if kind == "application/cloudevents+json":
        return [_structured(event, None)]
    if "ce-specversion" in request.headers:
        context = {name: request.headers[f"ce-{name}"] for name in _CONTEXT if f"ce-{name}" in request.headers}
        return [_with_context(event, context, None)]
    return [event]


async def _read_body(request: Request, limit: int = MAX_BODY, most: int | None = None) -> str:
    """Return the text of a request; it is never read beyond the limits, and never unpacked (promise S15).

    ``most`` is the number of lines that NDJSON may have.
    """
    if request.headers.get("content-encoding", "identity") != "identity":
        raise RefusedError(415, "Content-Encoding is not supported: send the body uncompressed")
    try:
        async with asyncio.timeout(BODY_SECONDS):
            body = await _bounded_body(request, limit, most if _kind(request) in _LINES else None)
    except ClientDisconnect:
        raise RefusedError(400, "the connection ended before the end of the body") from None
    except TimeoutError:
        raise RefusedError(408, f"the body did not arrive within {BODY_SECONDS:g} s") from None
    except asyncio.CancelledError:  # uvicorn stops, and would log a traceback for each body that is under way
        raise RefusedError(503, "the broker is stopping") from None
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise RefusedError(400, f"not UTF-8 text ({error.reason})") from None


async def _bounded_body(request: Request, limit: int, most: int | None) -> bytearray:
    """Return the bytes of a request; `LimitError` beyond the limits."""
    intake, lines, body = server_of(request).intake, 0, bytearray()
    chunks = request.stream()
    async for chunk in chunks:
        intake.take(request, len(chunk))
        body += chunk
        lines += chunk.count(b"\n")
        if len(body) > limit:
            await _drop(chunks)
            raise LimitError("bytes of a request", len(body), limit)
        if most is not None and lines > most:
            await _drop(chunks)
            raise LimitError("lines of one request", lines, most)
    return body


async def _drop(chunks: AsyncIterator[bytes]) -> None:
    """Read what a client is still writing, for a moment: closing the connection would hide the answer from it."""
    dropped = 0
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(DROP_SECONDS):
            async for chunk in chunks:
                dropped += len(chunk)
                if dropped > MAX_DROPPED:
                    return


def _items(request: Request, text: str) -> Iterator[dict[str, Any]] | None:
    """Return the objects of NDJSON or of a JSON array, to be parsed one by one; None for what is one object."""
    if _kind(request) in _LINES:
        return _lines(text)
    return _array(text) if text.lstrip().startswith("[") else None


async def _counted(
    request: Request, items: Iterator[dict[str, Any]], what: str, most: int, is_long: bool
) -> list[dict[str, Any]]:
    """Return all items; `LimitError` at the first one beyond ``most``: the rest is not parsed.

    The items of a long text, each of which may be long, are parsed beside the event loop, some at a time.
    """
    pace = server_of(request).pace(principal_of(request))
    await pace.begin()
    objects: list[dict[str, Any]] = []
    parse_some = partial(_parse_some, items, objects, most)
    more = True
    while more:
        more = await pace.beside(parse_some) if is_long else parse_some()
        if len(objects) > most:
            raise LimitError(what, most + 1, most)
        await pace.breathe()
    return objects


def _parse_some(items: Iterator[dict[str, Any]], objects: list[dict[str, Any]], most: int) -> bool:
    """Parse items for some milliseconds; return whether there may be more."""
    end = time.perf_counter() + SLICE_SECONDS
    for item in items:
        objects.append(item)
        if len(objects) > most:
            return False
        if time.perf_counter() > end:
            return True
    return False


def _kind(request: Request) -> str:
    return request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()


def _lines(text: str) -> Iterator[dict[str, Any]]:
    lines = (line for line in text.split("\n") if line.strip())
    for row, line in enumerate(lines):
        _check_length(line, MAX_EVENT_TEXT)
        yield _object(line, row)


def _object(text: str, row: int | None) -> dict[str, Any]:
    flat = read_flat(text)
    if flat is not None:
        return flat
    try:
        return _writable(read_object(text), has_half=bool(_HALF.search(text)))
    except ValueError as error:
        where = "" if row is None else f"line {row}: "
        raise RefusedError(400, f"{where}{error}") from None


def _array(text: str) -> Iterator[dict[str, Any]]:
    has_half = bool(_HALF.search(text))
    try:
        for item in array_objects(text, MAX_EVENT_TEXT):
            yield _writable(item, has_half=has_half)
    except ValueError as error:
        raise RefusedError(400, str(error)) from None


def _check_length(text: str, most: int) -> None:
    """Raise `LimitError` when one object is too long to be parsed."""
    if len(text) > most or (len(text) > most // 4 and len(text.encode()) > most):
        raise LimitError("bytes of one object", len(text.encode()), most)


def _writable(parsed: _Json, *, has_half: bool) -> _Json:
    """Return ``parsed``; ValueError when it has a string with half of a surrogate pair, which is not text.

    ``has_half`` says whether the text has an escape that may be half of a pair.
    """
    if has_half:
        try:
            json.dumps(parsed, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            half = f"\\u{ord(error.object[error.start]):04x}"
            raise ValueError(f"{half} is half of a surrogate pair, which is not text") from None
    return parsed


def _structured(event: dict[str, Any], row: int | None) -> dict[str, Any]:
    if event.get("specversion") != "1.0":
        raise EventError("specversion", event.get("specversion"), "expected a CloudEvent of version 1.0", row)
    context = {name: event[name] for name in _CONTEXT if name in event}
    return _with_context(event.get("data"), context, row)


def _with_context(data: object, context: dict[str, Any], row: int | None) -> dict[str, Any]:
    """Return the attributes of a CloudEvent: its data, and its context with ``ce_`` in front."""
    missing = [name for name in ("id", "source", "type") if not isinstance(context.get(name), str) or not context[name]]
    if missing:
        raise EventError(missing[0], context.get(missing[0]), "a CloudEvent has an id, a source and a type", row)
    if not isinstance(data, dict):
        raise EventError("data", data, "expected a JSON object as the data of a CloudEvent", row)
    return {f"ce_{name}": value for name, value in context.items()} | data


def whole_number(text: str, name: str, most: int) -> int:
    """Return a number of a query; `ModelError` when it is not one."""
    if not (text.isascii() and text.isdecimal()) or len(text) > 16 or int(text) > most:
        raise ModelError(f"{name}: expected a whole number from 0 to {most}, got {text[:40]!r}")
    return int(text)
