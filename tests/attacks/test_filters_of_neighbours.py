"""Attack: a neighbour announces the most expensive filters that are accepted, hundreds of them in one message.

They are compiled in a thread, and enter the routing table in slices before the message itself is taken. The longest
step of the event loop is measured for each message (`tests.attacks.stalls`).
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import msgspec

from tamis.algebra.proofs import patterns
from tamis.model.language.cql2_json import to_json
from tamis.model.language.parse import parse
from tamis.model.schema import Schema
from tamis.node.content import Content
from tamis.routing import messages as m
from tamis.routing.core.broker import BrokerCore
from tamis.routing.policies import find_policy
from tests.attacks.stalls import watched_broker
from tests.attacks.wire import HANGS, Wire, dialled, frames_of

#: Units of 2.5 to 5 ms. Taken whole, the messages held the loop for 30 to 20,000.
MOST_UNITS = 30.0

#: The steps with proofs about patterns are the longest: 20 to 40 units, and two may come in one turn of the loop.
MOST_UNITS_OF_PATTERNS = 120.0

#: Characters that the walks over patterns read for one subscription; they were more than a million.
MOST_STEPS = 60_000


def star(n: int, x: float) -> str:
    corners = [(1 + 0.3 * (k % 2), 2 * math.pi * k / n) for k in range(n)]
    corners.append(corners[0])
    return "POLYGON((" + ",".join(f"{x + r * math.cos(a):.5f} {r * math.sin(a):.5f}" for r, a in corners) + "))"


#: A filter for each number.
COSTLY: dict[str, Callable[[int], str]] = {
    "multiplied out": lambda n: " AND ".join(f"(a{i} = {n} OR b{i} = 2)" for i in range(8)),
    "expressions": lambda n: " OR ".join(f"a{k % 60} * b{k % 50} + c{k % 40} > {k + n}" for k in range(150)),
    "regions": lambda n: " OR ".join(f"S_INTERSECTS(g, {star(38, (i + n) / 100)})" for i in range(60)),
    "one large region": lambda n: f"S_INTERSECTS(g, {star(9_000, n)})",
    "patterns": lambda n: " OR ".join(f"s MATCHES '(x|y)*x(x|y){{{k % 10}}}{n}'" for k in range(16)),
    "shapes": lambda n: " AND ".join(f"{'abc'[i]}{1 + (n >> 3 * i) % 8} > {n}" for i in range(3)),
}
ENTRIES = {"multiplied out": 20, "expressions": 12, "regions": 6, "one large region": 3, "patterns": 8, "shapes": 120}


def entries(name: str) -> tuple[m.Entry, ...]:
    texts = map(COSTLY[name], range(ENTRIES[name]))
    return tuple(
        m.Entry(f"{name} {n}", name, msgspec.json.encode(to_json(parse(text)))) for n, text in enumerate(texts)
    )


#: Every attribute of these filters.
SCHEMA = {
    "attributes": {
        **{f"{letter}{i}": {"type": "number"} for letter in "abc" for i in range(60)},
        "g": {"type": "region"},
        "s": {"type": "string"},
        "n": {"type": "number"},
    }
}


async def taken(wire: Wire) -> None:
    """Wait until the last message is acknowledged."""
    while not any(frame.ack >= wire.sent for frame in frames_of(await wire.socket.recv())):
        pass


def test_no_message_of_a_neighbour_holds_the_loop(tmp_path: Path) -> None:
    messages: dict[str, m.Message] = {name: m.Update(n, entries(name)) for n, name in enumerate(COSTLY, 2)}
    messages |= {f"{name} instead": m.Update(9 + n, _others(entries(name))) for n, name in enumerate(COSTLY)}
    messages["a part of a table"] = m.TablePart(20, 0, entries("multiplied out"))

    (tmp_path / "schema.json").write_text(json.dumps(SCHEMA))

    async def story() -> dict[str, float]:
        units: dict[str, float] = {}
        async with watched_broker(tmp_path / "data", "evil", "other", schema=str(tmp_path / "schema.json")) as watched:
            for filter in ("n > 1", COSTLY["multiplied out"](0), COSTLY["regions"](0), COSTLY["patterns"](0)):
                assert (await watched.ask("/v1/subscriptions", "POST", {"filter": filter})).status == 201
            async with dialled(watched, "broker=evil") as wire:
                await wire.say(m.encode(m.Update(1, replace=True)))
                await taken(wire)
                for name, message in messages.items():
                    watched.reset()
                    await wire.say(m.encode(message))
                    await taken(wire)
                    units[name] = watched.units()
        return units

    units = asyncio.run(asyncio.wait_for(story(), HANGS))
    assert units.keys() == messages.keys()
    assert {name: n for name, n in units.items() if n > _most_units(name)} == {}


def _most_units(name: str) -> float:
    return MOST_UNITS_OF_PATTERNS if name.startswith("patterns") else MOST_UNITS


def _others(announced: tuple[m.Entry, ...]) -> tuple[m.Entry, ...]:
    """Return the same keys with the filters of other keys."""
    filters = [entry.filter for entry in announced]
    rotated = [*filters[1:], filters[0]]
    return tuple(
        msgspec.structs.replace(entry, filter=filter) for entry, filter in zip(announced, rotated, strict=True)
    )


def test_patterns_are_simplified_within_a_budget() -> None:
    """A linked broker simplifies each subscription for its links: that took minutes with sixteen patterns."""
    content = Content(Schema.from_json(json.dumps(SCHEMA)))
    core = BrokerCore("b", {"other": find_policy("covering")}, content)
    subscribe = [m.Subscribe(n, msgspec.json.encode(to_json(parse(COSTLY["patterns"](n + 100))))) for n in range(3)]
    core.handle(subscribe[0], sender="eve", now=0.0)
    for message in subscribe[1:]:
        with mock.patch.object(patterns._Walk, "_step", autospec=True, side_effect=patterns._Walk._step) as step:
            core.handle(message, sender="eve", now=0.0)
        assert 0 < step.call_count < MOST_STEPS
