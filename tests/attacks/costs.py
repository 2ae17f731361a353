"""Which filter and which event hold a broker's event loop longest: ``python -m tests.attacks.costs --rounds 3``.

Filters and events of the largest size that is accepted go through the edge of a broker in this process, as a request
of HTTP does: reading and checking a subscription, its step into the routing table, checking an event, and the steps
that match and deliver it. Each step is timed in CPU time; steps of a kind that ran once before, so that nothing is
compiled within them. Printed: the most expensive step of each pair, the worst first. The goal is 50 ms.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec

from tamis.errors import TamisError
from tamis.model.language.cql2_json import to_json
from tamis.model.language.parse import parse
from tamis.model.schema import Schema
from tamis.node.content import Content
from tamis.node.effects import Again
from tamis.routing import messages as m
from tamis.routing.core.broker import BrokerCore
from tamis.routing.edge.core import EdgeCore
from tamis.routing.edge.requests import Post, Posts, SubscribeFor
from tamis.routing.edge.rights import Rights
from tests.effort import unit_seconds

#: Milliseconds of CPU time that one step may take.
GOAL = 50.0

SCHEMA = {
    "attributes": {
        "place": {"type": "region", "geodetic": True},
        "plane": {"type": "region"},
        "at": {"type": "timestamp"},
        "tags": {"type": "many", "of": {"type": "string"}},
        "v": {"type": "vector", "n": 3},
    }
}

_RIGHTS = Rights("eve")


class Pair(NamedTuple):
    """A filter and an event that it looks at."""

    name: str
    filter: str
    event: dict[str, Any]


class Costs(NamedTuple):
    """CPU time of the longest step of each kind, in milliseconds; ``outcome`` says what was refused."""

    name: str
    steps: dict[str, float]
    outcome: str

    @property
    def worst(self) -> float:
        return max(self.steps.values(), default=0.0)


# ---- what is as large as may be


def zigzag(n: int, width: float, rng: random.Random) -> str:
    """Return a polygon of ``n`` corners with edges from west to east and back: a comb."""
    half = max(2, n // 2)
    y = [-60 + 120 * k / half for k in range(half)]
    right = [(width, height) if k % 2 else (rng.uniform(1, 2), height) for k, height in enumerate(y)]
    corners = [(-width, -61.0), *right, (-width, 61.0), (-width, -61.0)]
    return "POLYGON((" + ",".join(f"{a:.6f} {b:.6f}" for a, b in corners) + "))"


def star(n: int, x: float, y: float, radius: float = 1.0) -> str:
    corners = [(radius * (1 + 0.3 * (k % 2)), 2 * math.pi * k / n) for k in range(n)]
    corners.append(corners[0])
    return "POLYGON((" + ",".join(f"{x + r * math.cos(a):.6f} {y + r * math.sin(a):.6f}" for r, a in corners) + "))"


def filled(part: Callable[[int], str], joint: str, most: int = 16_000, parts: int = 5_000) -> str:
    """Return as many parts as fit into a text, or as may be."""
    text, number = part(0), 1
    while number < parts and len(text) + len(more := f"{joint}{part(number)}") <= most:
        text, number = text + more, number + 1
    return text


def expressions(rng: random.Random) -> Iterator[Pair]:
    values = {f"a{k}": rng.uniform(0.1, 9) * 10 ** rng.randrange(-200, 200) for k in range(64)}
    plain = {name: rng.uniform(0.5, 2) for name in values}
    names = list(values)

    def term(ops: str, n: int, test: str) -> Callable[[int], str]:
        def make(number: int) -> str:
            chosen = [rng.choice(names) for _ in range(n)]
            return f"{''.join(name + rng.choice(ops) for name in chosen)}{number} {test}"

        return make

    def power(number: int) -> str:
        return (
            f"{rng.choice(names)}^1.{rng.randrange(1, 999)}+{rng.choice(names)}^0.{rng.randrange(1, 999)} = -{number}"
        )

    def tower(number: int) -> str:
        base, below = rng.choice(names), rng.choice(names)
        return f"({base}+1)^{rng.choice([90, 120, 150])}/({below}+{number})^{rng.choice([90, 120, 150])} = -1"

    for name, event in (("wide", values), ("plain", plain)):
        for ops in ("+", "*", "/", "+-*/", "%"):
            for n in (3, 20, 60):
                label = f"{n} of {ops!r}, {name} numbers"
                yield Pair(f"any: {label}", filled(term(ops, n, "= -1.5"), " OR ", 15_000), event)
                yield Pair(f"all: {label}", filled(term(ops, n, "<> -1.5"), " AND ", 15_000), event)
        yield Pair(f"powers, {name} numbers", filled(power, " OR ", 15_000, 32), event)
        yield Pair(f"towers, {name} numbers", filled(tower, " OR ", 15_000, 32), event)


def regions(rng: random.Random) -> Iterator[Pair]:
    functions = ["S_INTERSECTS", "S_WITHIN", "S_CONTAINS", "S_TOUCHES", "S_OVERLAPS", "S_CROSSES", "S_EQUALS"]
    for count, n in ((1, 9_990), (8, 1_200), (64, 150), (255, 38), (256, 12)):
        for joint in (" OR ", " AND "):
            function = rng.choice(functions)
            text = joint.join(f"{function}(plane, {star(n, i / 100, 0)})" for i in range(count))
            yield Pair(f"{count} regions of {n}, {function}{joint}", text, {"plane": star(9_000, 0.4, 0.1)})
    yield Pair("a comb", f"S_INTERSECTS(plane, {zigzag(9_000, 170, rng)})", {"plane": zigzag(9_000, 169, rng)})
    yield Pair("a comb touches", f"S_TOUCHES(plane, {zigzag(9_000, 170, rng)})", {"plane": zigzag(9_000, 169, rng)})
    wide = "DWITHIN(place, {}, 10, 'km')"
    for n, k in ((990, 9_000), (990, 990), (990, 4), (4, 9_000)):
        filter, event = "S_" + wide.format(zigzag(n, 170, rng)), {"place": zigzag(k, 169, rng)}
        yield Pair(f"distance of combs of {n} and {k}", filter, event)
    far = f"S_DWITHIN(place, {star(990, 100, 60, 0.5)}, 10, 'km')"
    yield Pair("distance of stars", far, {"place": star(9_000, -100, -20, 0.5)})
    many = " OR ".join(f"S_{wide.format(star(38, i / 10, 60, 0.5))}" for i in range(255))
    yield Pair("255 distances", many, {"place": star(9_000, 0, 0, 5)})


def texts(rng: random.Random) -> Iterator[Pair]:
    long = "".join(rng.choice("ab") for _ in range(250_000))
    yield Pair("likes", filled(lambda n: f"s LIKE '%{'ab' * 9}{n}%a_b%'", " OR "), {"s": long})
    yield Pair("one long like", f"s LIKE '{'%a_b' * 3_900}'", {"s": long})
    yield Pair("ilikes", filled(lambda n: f"s ILIKE '%{'ab' * 9}{n}%'", " OR "), {"s": long})
    yield Pair("folded", filled(lambda n: f"ACCENTI(CASEI(s)) = ACCENTI(CASEI('{n}é'))", " OR "), {"s": "é" * 120_000})
    yield Pair("matches", filled(lambda n: f"s MATCHES '(a|b)*a(a|b){{{n % 9}}}c{n}'", " OR "), {"s": long})
    yield Pair("one long match", f"s MATCHES '({'|'.join('ab' * k for k in range(1, 60))})*c'", {"s": long})
    yield Pair("classes", f"s MATCHES '{'[a-z0-9]?' * 1_500}c'", {"s": long})
    yield Pair("strings", filled(lambda n: f"s = '{n}'", " OR "), {"s": long})
    yield Pair("list", f"n IN ({','.join(f'{k}.5' for k in range(10_000))})", {"n": 1.5})
    yield Pair("list of texts", f"s IN ({','.join(repr(f'x{k}') for k in range(10_000))})", {"s": long})


def shapes_of_trees(rng: random.Random) -> Iterator[Pair]:
    event = {f"a{k}": 1 for k in range(200)}
    yield Pair("multiplied", " AND ".join(f"(a{i} = 1 OR b{i} = 2)" for i in range(8)), event)
    yield Pair("256 alternatives of 40", filled(lambda n: f"(a{n % 9} = {n} AND a{n % 7} > 1)", " OR "), event)
    yield Pair("tree", filled(lambda n: f"(a{n % 90} = {n} OR b{n % 80} = 1)", " AND "), event)
    yield Pair("deep", "NOT (" * 31 + "a1 = 1 AND a2 = 2" + ")" * 31, event)
    nested = "a1 = 1"
    for k in range(31):
        joint = " OR " if k % 2 else " AND "
        nested = f"({nested}{joint}{filled(lambda n, k=k: f'a{n} = {k}', joint, 490)})"  # type: ignore[misc]
    yield Pair("deep and wide", nested, event)
    yield Pair("nulls", filled(lambda n: f"a{n} IS NULL", " OR "), event)
    yield Pair("paths", filled(lambda n: f"a.b.c.d.e{n} > 1", " OR "), {"a": {"b": {"c": {"d": event}}}})
    tags = {"tags": [str(i) for i in range(1_000)]}
    yield Pair("set", f"A_CONTAINS(tags, ({','.join(repr(str(i)) for i in range(500))}))", tags)
    overlaps = filled(lambda n: f"A_OVERLAPS(tags, ('x{n}', 'y{n}'))", " OR ")
    yield Pair("overlaps", overlaps, tags)
    balls = filled(lambda n: f"V_WITHIN(v, ({n}, 1, 2), 0.5)", " OR ", 15_000)
    yield Pair("balls", balls, {"v": [0, 0, 0]})
    yield Pair("bounds", filled(lambda n: f"a{n % 200} BETWEEN {n} AND {n + 1}", " AND "), event)
    yield Pair("wide event", "a1 = 1", {f"n{k}": {"x": [k, {"y": k}]} for k in range(256)})
    yield Pair("deep event", "a1 = 1", {"a": _nested(30), "b": [_nested(28)] * 500})
    yield Pair("long list", "a1 = 1", {"a": list(range(60_000))})
    yield Pair("many keys", "a1 = 1", {"a": {f"k{k}": k for k in range(20_000)}})


def _nested(levels: int) -> Any:
    return {"a": _nested(levels - 1), "b": 1} if levels else 1


def pairs(rng: random.Random) -> Iterator[Pair]:
    """Yield filters with events, of every family."""
    for family in (expressions, regions, texts, shapes_of_trees):
        yield from family(rng)


# ---- the broker's path


def timed(steps: dict[str, float], kind: str, work: Callable[[], Any]) -> Any:
    """Do one step, and note the longest of its kind."""
    start = time.thread_time()
    try:
        return work()
    finally:
        steps[kind] = max(steps.get(kind, 0.0), (time.thread_time() - start) * 1e3)


def new_edge() -> EdgeCore:
    content = Content()
    edge = EdgeCore(BrokerCore("here", {}, content), content, {})
    edge.checks.teach(Schema.from_json(msgspec.json.encode(SCHEMA)), ["default"])
    return edge


def measure(pair: Pair) -> Costs:
    """Take a pair through the edge of a new broker."""
    steps: dict[str, float] = {}
    edge = new_edge()

    def read() -> tuple[Any, Any]:
        message = m.Subscribe("s", msgspec.json.encode(to_json(parse(pair.filter))), "default")
        return message, edge.checks.draft(None, message, _RIGHTS)

    try:
        message, draft = timed(steps, "reading the filter", read)
        message_for = SubscribeFor((("s:default:s", message),), _RIGHTS, drafts={"default": draft})
        effects = timed(steps, "subscribing", lambda: edge.handle(message_for, sender="", now=0.0))
        _ticks(edge, effects, steps, "subscribing")
        events = edge.checks.begin_events("default")
        raw = msgspec.json.decode(msgspec.json.encode(pair.event))
        timed(steps, "checking the event", lambda: edge.checks.draft_event(events, raw, "default", _RIGHTS))
        post = Posts((Post((raw,), "default", _RIGHTS, "p", 1, draft=events),))
        effects = timed(steps, "matching", lambda: edge.handle(post, sender="", now=0.0))
        _ticks(edge, effects, steps, "matching")
    except TamisError as error:
        return Costs(pair.name, steps, f"refused: {str(error)[:90]}")
    return Costs(pair.name, steps, "taken")


def _ticks(edge: EdgeCore, effects: list[Any], steps: dict[str, float], kind: str) -> None:
    while Again() in effects:
        effects = timed(steps, kind, lambda: edge.handle(m.Tick(), sender="", now=0.0))


def main() -> int:
    """Run from the command line; return 1 when a step is over the goal."""
    parser = argparse.ArgumentParser(description="Which filter and which event hold the event loop longest.")
    parser.add_argument("--rounds", type=int, default=2, help="random draws of each family; the first one warms up")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="pairs whose name has this in it")
    options = parser.parse_args()
    best: dict[str, Costs] = {}
    for number in range(options.rounds):
        for pair in pairs(random.Random(options.seed)):
            if options.only in pair.name:
                costs = measure(pair)
                if number and (pair.name not in best or costs.worst < best[pair.name].worst):
                    best[pair.name] = costs
    worst = sorted(best.values(), key=lambda costs: -costs.worst)
    for costs in worst:
        steps = ", ".join(f"{kind} {ms:.1f}" for kind, ms in costs.steps.items())
        print(f"{costs.worst:8.1f} ms  {costs.name}: {steps} ({costs.outcome})")
    print(f"one unit of tests.effort: {unit_seconds() * 1e3:.1f} ms; the goal is {GOAL:g} ms")
    return int(bool(worst) and worst[0].worst > GOAL)


if __name__ == "__main__":
    sys.exit(main())
