"""Random bodies of HTTP requests: objects, arrays, NDJSON and CloudEvents, damaged as structures and as text.

They are read as `POST /v1/events` and `POST /v1/subscriptions` do, and what is read is checked by the edge of a broker.
Only a `TamisError` may refuse a body. What comes out of an event must be readable again.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple

from starlette.requests import Request

from tamis.errors import InvariantError, TamisError
from tamis.files.fields import read_fields
from tamis.node.content import Content
from tamis.routing.edge.checks import Checks
from tamis.routing.edge.rights import Rights
from tamis.web.bodies import read_events, read_objects
from tamis.web.endpoints.subscriptions import NewSubscription, _as_json, _message_of, drafted
from tamis.web.intake import BodyIntake
from tamis.web.work.pacing import Pace, Shares
from tests.fuzz.harness import Area, damaged_bytes, damaged_text, document, main, name

KINDS = [
    *("application/json", "application/json", "application/x-ndjson", "application/cloudevents+json"),
    *("application/cloudevents-batch+json", "application/JSON; charset=latin-1", "", "text/plain", "\x00"),
]
FILTERS = ["n > 1", "s = 'x' AND n < 2", "area IS NULL", "S_WITHIN(area, BBOX(0, 0, 1, 1))", "(", "", "n" * 20_000]


class Body(NamedTuple):
    """A request: its door, its headers and its chunks."""

    door: str
    headers: tuple[tuple[str, str], ...]
    chunks: tuple[bytes, ...]


def event(rng: random.Random) -> Any:
    """Return an event, or a CloudEvent, or what is none."""
    if rng.random() < 0.1:
        return document(rng)
    plain = {name(rng): document(rng, 2) for _ in range(rng.choice([0, 1, 3, 8] * 12 + [257]))}
    if rng.random() < 0.8:
        return plain
    context = {"specversion": "1.0", "id": "1", "source": "s", "type": "t", "data": plain}
    return context | ({rng.choice(list(context)): document(rng, 1)} if rng.random() < 0.4 else {})


def subscription(rng: random.Random) -> Any:
    """Return a subscription, or what is none."""
    good: dict[str, Any] = {"filter": rng.choice(FILTERS), "id": rng.choice(["x", 1, "", 2**70, "\ud800"])}
    extra = {
        "namespace": rng.choice(["default", "*", "", "x" * 200]),
        "durable": rng.choice([True, 1]),
        "expires": rng.choice([1, -1, 1e400, "2026-01-31T12:00:00Z", "x", "9" * 5_000]),
        "metadata": document(rng, 2),
        "unknown": 1,
    }
    chosen = rng.sample(list(extra), rng.choice([0, 0, 1, 2]))
    return good | {key: extra[key] for key in chosen} if rng.random() < 0.9 else document(rng)


def make(rng: random.Random) -> Body:
    """Return a request."""
    door = rng.choice(["events", "events", "subscriptions"])
    items = [event(rng) if door == "events" else subscription(rng) for _ in range(rng.choice([1, 1, 2, 5]))]
    form = rng.choice([lambda: items[0], lambda: items, lambda: None])()
    lines = "\n".join(json.dumps(item) for item in items)
    text = lines if form is None else json.dumps(form, ensure_ascii=rng.random() < 0.5)
    for _ in range(rng.choice([0, 0, 1, 2])):
        text = damaged_text(rng, text, '{}[]",:\\ \n0-eE.')
    data = text.encode("utf-8", "surrogatepass")
    if rng.random() < 0.1:
        data = damaged_bytes(rng, data)
    headers = [("content-type", rng.choice(KINDS))]
    if rng.random() < 0.1:
        headers += [("ce-specversion", "1.0"), ("ce-id", "1"), ("ce-source", rng.choice(["s", ""])), ("ce-type", "t")]
    if rng.random() < 0.03:
        headers.append(("content-encoding", rng.choice(["gzip", "identity", "br, gzip"])))
    cut = rng.randrange(len(data) + 1)
    return Body(door, tuple(headers), (data[:cut], data[cut:]))


_loop = asyncio.new_event_loop()
_RIGHTS = Rights("alice")


def treat(body: Body) -> str:
    """Read a request, and check what is in it."""
    content = Content()
    checks = Checks(content)
    pace = partial(Pace, Shares())
    server: Any = SimpleNamespace(
        intake=BodyIntake(), pace=pace, broker=SimpleNamespace(subscriptions={}, checks=checks)
    )
    try:
        return _loop.run_until_complete(_treated(_request(body, server), body.door, server))
    except InvariantError:
        raise
    except TamisError as error:
        if not str(error):
            raise AssertionError("an error without words") from error
        return f"{body.door}: {type(error).__name__}"


async def _treated(request: Request, door: str, server: Any) -> str:
    checks = server.broker.checks
    if door == "events":
        for raw in await read_events(request):
            payload = checks.event(raw, "default", _RIGHTS)
            checks.content.of("default").read_event(payload)
        return "events: taken"
    objects, _ = await read_objects(request)
    for fields in objects:
        draft = read_fields(fields, NewSubscription)
        _, message = _message_of(server, _RIGHTS, draft, await _as_json(draft.filter, server.pace("alice")))
        await drafted(checks, None, message, _RIGHTS, server.pace("alice"))
    return "subscriptions: taken"


def _request(body: Body, server: Any) -> Request:
    chunks = list(body.chunks)

    async def receive() -> dict[str, Any]:
        chunk = chunks.pop(0)
        return {"type": "http.request", "body": chunk, "more_body": bool(chunks)}

    headers = [(key.encode("latin-1"), value.encode("latin-1")) for key, value in body.headers]
    app = SimpleNamespace(state=SimpleNamespace(server=server))
    scope = {"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": headers, "app": app}
    return Request(scope | {"state": {}}, receive)


AREA = Area("bodies", make, treat)

if __name__ == "__main__":
    sys.exit(main(AREA))
