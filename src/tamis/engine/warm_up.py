"""Load compiled kernels before a server answers its first request.

A kernel is compiled at its first call, which takes up to ten seconds, and later read from the cache on disk, in up to
a third of a second. In a broker that first call would come with a request, and hold the event loop (promise S26).
`loading_steps` ask a small engine and a small covering index, with conditions of every kind, what a broker's tables are
asked. `tamis serve` compiles before it listens, and loads compiled kernels in a thread as soon as it does.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any, Final, NamedTuple

import pyarrow as pa

from tamis import __version__
from tamis.engine.covering import covering_index
from tamis.engine.engine import Engine
from tamis.kernels.cache import mark_path
from tamis.model.tables import SubscriptionTable

__all__ = ["PARTS", "are_kernels_compiled", "leave_mark", "loading_steps"]

#: Subscriptions of each kind: enough for an index of several blocks beside those that are scanned.
_SUBSCRIPTIONS = 140
#: Events of a table: more than are matched one by one.
_EVENTS = 20
#: Subscriptions of each kind whose covers are looked for.
_COVERS = 20
#: Subscriptions that come as one table: enough to be packed at once, and for literals to be found by hashing.
_BULK = 4_096
#: Names the file that `leave_mark` leaves in the cache. Another release may call kernels with other types.
_MARK = f"broker-{__version__}"


class _Kind(NamedTuple):
    """Filters by their number, and an event that some of them match."""

    filter_of: Callable[[int], str]
    event: dict[str, Any]


_SQUARE = "POLYGON(({0} 0, {1} 0, {1} 1, {0} 1, {0} 0))"
_CELL = "POLYGON((3.1 0.1, 3.4 0.1, 3.4 0.4, 3.1 0.1))"

_KINDS: Final[dict[str, _Kind]] = {
    "ranges": _Kind(lambda i: f"price BETWEEN {i} AND {i + 9} AND volume < {i + 1}", {"price": 6.5, "volume": 2}),
    "strings": _Kind(lambda i: f"name = 'n{i}' AND price > {i}", {"name": "n3", "price": 6.5}),
    "alternatives": _Kind(lambda i: f"name IN ('n{i}', 'm{i}') OR price > {i}", {"name": "n3", "price": 6.5}),
    "literals": _Kind(lambda i: f"line LIKE '%ab{i}c%'", {"line": "xxab3cxx"}),
    "ends": _Kind(lambda i: f"line ILIKE '%ab{i}c%' AND name LIKE 'a{i}%'", {"line": "xxAB3cxx", "name": "a3"}),
    "prefixes": _Kind(lambda i: f"line LIKE 'x{i}%' OR line LIKE '%y{i}'", {"line": "x3 and y4"}),
    "expressions": _Kind(lambda i: f"line MATCHES 'ab+c{i}'", {"line": "xxabbc3xx"}),
    "points": _Kind(lambda i: f"S_INTERSECTS(area, {_SQUARE.format(i, i + 1)})", {"area": "POINT(3.5 0.2)"}),
    "regions": _Kind(lambda i: f"S_WITHIN(area, {_SQUARE.format(i, i + 1)})", {"area": _CELL}),
    "circles": _Kind(lambda i: f"S_DWITHIN(area, POINT({i / 10} 2), 5, 'km')", {"area": "POINT(3 2)"}),
    "balls": _Kind(lambda i: f"V_WITHIN(look, (0.1, 0.2, {i}), 0.5)", {"look": [0.1, 0.2, 3.0]}),
    "trees": _Kind(
        lambda i: f"(a > {i} OR b < {i}) AND (c = {i} OR d > {i} OR e < 5) AND (f = 1 OR g = 2 OR a > 4)",
        {"a": 5, "b": 1, "c": 3, "d": 2},
    ),
}


#: Kinds whose kernels are about regions and vectors; the others are about numbers and text.
_SPATIAL = ("regions", "points", "circles", "balls")


def are_kernels_compiled() -> bool:
    """Return whether `loading_steps` find everything in the cache of this machine; False if there is no cache."""
    mark = mark_path(_MARK)
    return mark is not None and mark.exists()


def leave_mark() -> None:
    """Note in the cache that all of `PARTS` ran."""
    mark = mark_path(_MARK)
    if mark is not None:
        with contextlib.suppress(OSError):  # a cache on a full disk: the next process compiles again
            mark.touch()


def loading_steps() -> Iterator[Callable[[], None]]:
    """Yield calls that load the kernels of a broker's tables, so that a server can make them one by one in a thread.

    What the cache lacks is compiled. All of them take about three seconds of CPU time from the cache, and a minute or
    two without it; a second time they do nothing.
    """
    for name in _KINDS:
        yield partial(_load, name)
    for name in ("ranges", "literals"):
        yield partial(_load_packed, name)


def _compile_spatial() -> None:
    for name in _SPATIAL:
        _load(name)


def _compile_values() -> None:
    for name in _KINDS:
        if name not in _SPATIAL:
            _load(name)
    for name in ("ranges", "literals"):
        _load_packed(name)


#: What is compiled, by name. The parts start with different kernels: processes beside each other share the work.
PARTS: Final[dict[str, Callable[[], None]]] = {"spatial": _compile_spatial, "values": _compile_values}


@cache
def _load(name: str) -> None:
    """Load what conditions of a kind need, once in the life of a process."""
    kind = _KINDS[name]
    filters = [kind.filter_of(number) for number in range(_SUBSCRIPTIONS)]
    _match(filters, kind.event)
    _find_covers(filters[:_COVERS])


@cache
def _load_packed(name: str) -> None:
    """Load what packs many subscriptions of a kind into an index, and what asks it."""
    kind = _KINDS[name]
    engine = Engine()
    texts = [kind.filter_of(number) for number in range(_BULK)]
    engine.subscribe_table(SubscriptionTable.from_arrow(pa.table({"id": range(_BULK), "filter": texts})))
    engine.wait()
    engine.match(kind.event)
    engine.match_table(pa.Table.from_pylist([kind.event] * _EVENTS))


def _match(filters: list[str], event: dict[str, Any]) -> None:
    """Match events one by one, asking few and many subscriptions, and as a table."""
    engine = Engine()
    for text in filters[:2]:
        engine.subscribe(text)
    engine.match(event)
    for text in filters[2:]:
        engine.subscribe(text)
    engine.match(event)
    engine.wait()
    engine.match(event)
    engine.match_table(pa.Table.from_pylist([event] * _EVENTS))


def _find_covers(filters: list[str]) -> None:
    """Ask for the covers of each filter, and for what it covers."""
    index = covering_index()
    for text in filters:
        index.add(text)
    for text in filters[:2]:
        index.find_cover(text)
        index.find_covered(text)
