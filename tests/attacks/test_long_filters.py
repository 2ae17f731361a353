"""Attack: filters that take hundreds of milliseconds to compile, and bodies that take as long to parse.

Both are read in a thread beside the event loop, for one principal after the other. The longest step of the loop itself
is measured in CPU time of its thread (`tests.attacks.stalls`).
"""

from __future__ import annotations

import asyncio
import math
from pathlib import Path

import msgspec
import pytest

from tamis.model.language.cql2_json import to_json
from tamis.model.language.parse import parse
from tamis.node.content import Content
from tamis.routing import messages as m
from tamis.routing.edge.checks import Checks, adopt_from, checks_apart
from tamis.routing.edge.rights import Rights
from tamis.web.work.pacing import Pace, Shares
from tests.attacks.stalls import watched_broker
from tests.attacks.wire import HANGS, dialled

#: Units of about 5 ms: 50 ms, the goal.
MOST_UNITS = 10.0


def star(n: int, x: float) -> str:
    corners = [(1 + 0.3 * (k % 2), 2 * math.pi * k / n) for k in range(n)]
    corners.append(corners[0])
    return "POLYGON((" + ",".join(f"{x + r * math.cos(a):.5f} {r * math.sin(a):.5f}" for r, a in corners) + "))"


#: Each took 65 to 400 ms of the loop.
FILTERS = {
    "255 regions": " OR ".join(f"S_INTERSECTS(g, {star(38, i / 100)})" for i in range(255)),
    "expressions": " OR ".join(f"a{n % 60} * b{n % 50} + c{n % 40} > {n}" for n in range(500)),
    "alternatives": " OR ".join(f"(a{n % 9} = {n} AND a{n % 7} > 1)" for n in range(500)),
}


def test_no_long_filter_and_no_long_body_holds_the_loop(tmp_path: Path) -> None:
    async def story() -> dict[str, float]:
        units: dict[str, float] = {}
        async with watched_broker(tmp_path) as watched:
            assert (await watched.ask("/v1/subscriptions", "POST", {"filter": "n > 1", "id": "first"})).status == 201
            assert (await watched.ask("/v1/events", "POST", {"n": 2})).status == 200
            for name, text in FILTERS.items():
                watched.reset()
                answer = await watched.ask("/v1/subscriptions", "POST", {"filter": text, "id": name, "namespace": name})
                assert answer.status == 201, answer.body
                units[name] = watched.units()
            watched.reset()
            body = b'[{"n":1},{"a":[' + b"1," * 900_000 + b"1]}]"
            answer = await watched.ask("/v1/events", "POST", body, **{"Content-Type": "application/json"})
            assert answer.status == 200, answer.body
            units["a long body"] = watched.units()
            async with dialled(watched) as wire:
                filter = msgspec.json.encode(to_json(parse(FILTERS["expressions"])))
                watched.reset()
                await wire.say(m.encode(m.Subscribe("socket", filter, "socket")))
                assert await wire.count_active(1) == 1
                units["over a socket"] = watched.units()
        return units

    units = asyncio.run(asyncio.wait_for(story(), HANGS))
    assert {name: n for name, n in units.items() if n > MOST_UNITS} == {}


def test_what_a_thread_has_compiled_is_not_compiled_again() -> None:
    """The broker has the filters of the draft in memory, where the step that takes the subscription finds them."""
    checks, rights = Checks(Content()), Rights("eve")
    message = m.Subscribe("x", msgspec.json.encode(to_json(parse("price < 10 AND name = 'x'"))))
    apart = checks_apart(checks, "default")
    draft = apart.draft(None, message, rights)
    assert not checks.content.of("default").schema  # the thread has taught the broker nothing
    adopt_from(checks, apart, "default")
    assert checks.takes(draft, "default")
    content = checks.content.of("default")
    assert sorted(content.schema) == ["name", "price"]
    written = draft.checked[0].filter
    assert content.read_filter(written) is apart.content.of("default").read_filter(written)
    checks.forget_types("default", ())
    adopt_from(checks, apart, "default")  # compiled under types that were forgotten since
    assert (content._number, written) not in content._memory.filters


def test_principals_use_the_thread_in_turn_and_errors_come_back() -> None:
    async def story() -> list[str]:
        shares, order = Shares(), list[str]()

        async def ask(principal: str, n: int) -> None:
            await Pace(shares, principal).beside(lambda: order.append(f"{principal}{n}"))

        await asyncio.gather(*(ask("eve", n) for n in range(4)), ask("bob", 0))
        with pytest.raises(ZeroDivisionError):
            await Pace(shares, "eve").beside(lambda: 1 // 0)
        return order

    order = asyncio.run(asyncio.wait_for(story(), HANGS))
    assert order.index("bob0") <= 1  # not behind all of eve's
