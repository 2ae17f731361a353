"""Workloads of boxes and of texts, made from a seed: what benchmarks and speed tests run on.

========== ==============================================================================================
uniform4   four ranges on [0, 1000), each up to 100 wide; an event matches few (5.9 of a million)
zipf4      the same with centres and events crowded near 0; an event matches many (4,630 of a million)
sparse20   four of twenty attributes, some asked for more often than others (5.5 of a million)
dense20    ten of twenty attributes in wide ranges, 0.4 of the values each (105 of a million)
ads122     eight of 122 attributes, some asked for more often than others, 70 % of them by equality with crowded
           values; events have 20 of the attributes (1 of a million)
stock      a symbol (equality), a price (one- or two-sided), a volume (at least), a change (at most, half)
           (2,500 of a million)
mixed      texts: one in ten with a condition that no box can say, one in ten with OR, symbols from 100,000
           values; events lack each attribute one time in five
boolean    texts: 3 to 30 conditions on twenty attributes, nested with AND, OR and NOT
circles    texts: 1 to 100 km around places of the globe; circle_boxes: the same as ranges of two numbers
nested     texts: the boxes of uniform4 on values inside two objects; nested_flat: the same on four columns
repeated   texts: one of 10,000 tags and a range of prices; an event has three tags. repeated_flat: one tag in a column,
           and each event three times
========== ==============================================================================================

The same name, sizes and seed give the same numbers everywhere.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import shapely

from tamis.geometry.sphere import bounds_of_circle
from tamis.model.schema import Schema
from tamis.model.types import Many, Number, Region, String

__all__ = [
    "BOX_WORKS",
    "FAR_AWAY",
    "TEXT_WORKS",
    "WORKS",
    "BoxWork",
    "TextWork",
    "box_events",
    "box_payloads",
    "box_texts",
    "make_booleans",
    "make_boxes",
    "make_circle_boxes",
    "make_circles",
    "make_nested",
    "make_nested_flat",
    "make_repeated",
    "make_repeated_flat",
    "make_texts",
    "make_work",
]

FloatArray = npt.NDArray[np.float64]

#: Above every end of a box and every value.
FAR_AWAY: Final = 5e11

_N_STOCKS: Final = 1_000
_STOCK_NAMES: Final = ("symbol", "price", "volume", "change")
#: Boxes of many attributes that are drawn together: the random numbers of all would fill the memory.
_ROWS_AT_ONCE: Final = 50_000
_N_SYMBOLS: Final = 100_000
#: Attributes of the boolean work.
_N_ATTRIBUTES: Final = 20
#: Objects of the nested work and their fields, and the paths to these.
_OBJECTS: Final = {"order": ("price", "volume"), "site": ("x", "y")}
_PATHS: Final = tuple(f"{name}.{field}" for name, fields in _OBJECTS.items() for field in fields)
#: Tags of the repeated work, and of each of its events.
_N_TAGS: Final = 10_000
_TAGS_OF_AN_EVENT: Final = 3
_VENUES: Final = ("arca", "bats", "cboe", "euronext", "nasdaq", "nyse", "tokyo", "xetra")
#: Parts of the names of venues: none is a prefix, so no range of strings says the same.
_PARTS: Final = ("at", "as", "kyo", "yse")


@dataclass(frozen=True)
class BoxWork:
    """Closed boxes float64[n, d] (an infinite side is open) and events float64[m, d], NaN where a value is missing.

    No side of a work with such gaps is open at one end only.
    """

    name: str
    names: tuple[str, ...]
    lo: FloatArray
    hi: FloatArray
    points: FloatArray

    def __len__(self) -> int:
        return len(self.lo)

    @cached_property
    def events(self) -> pa.Table:
        """The events as a table, null where a value is missing."""
        return pa.table(
            {name: pa.array(self.points[:, i].copy(), from_pandas=True) for i, name in enumerate(self.names)}
        )

    @cached_property
    def filled(self) -> FloatArray:
        """The events for systems without missing values: `FAR_AWAY` instead, which lies in sides that are open."""
        return np.where(np.isnan(self.points), FAR_AWAY, self.points)

    @cached_property
    def filled_events(self) -> pa.Table:
        """`filled` as a table."""
        return pa.table({name: self.filled[:, i].copy() for i, name in enumerate(self.names)})


@dataclass(frozen=True)
class TextWork:
    """Subscriptions as CQL2 text, and events as a table with nulls."""

    name: str
    texts: list[str]
    events: pa.Table
    #: The types, where the table does not say them.
    schema: Schema | None = None

    def __len__(self) -> int:
        return len(self.texts)


def make_work(name: str, n: int, n_events: int, seed: int = 1) -> BoxWork | TextWork:
    """Make any of `WORKS`."""
    return make_boxes(name, n, n_events, seed) if name in BOX_WORKS else TEXT_WORKS[name](n, n_events, seed)


def make_boxes(name: str, n: int, n_events: int, seed: int = 1) -> BoxWork:
    """Make one of `BOX_WORKS`: ``n`` boxes and ``n_events`` events.

    >>> work = make_boxes("stock", 100, 10)
    >>> work.names, work.lo.shape, work.points.shape
    (('symbol', 'price', 'volume', 'change'), (100, 4), (10, 4))
    """
    lo, hi, points = BOX_WORKS[name](np.random.default_rng(seed), n, n_events)
    names = tuple(f"a{axis}" for axis in range(lo.shape[1]))
    return BoxWork(name, _STOCK_NAMES if name == "stock" else names, lo, hi, points)


def make_texts(n: int, n_events: int, seed: int = 1) -> TextWork:
    """Make the mixed work: ``n`` texts and ``n_events`` events.

    >>> print(make_texts(3, 1).texts[0])
    symbol = 'S000272' AND price <= 948.65
    """
    rng = np.random.default_rng(seed)
    plain = _plain_texts(rng, n)
    others = _plain_texts(rng, n)
    kind, part = rng.random(n), rng.integers(0, len(_PARTS), n)
    texts = []
    for i, text in enumerate(plain):
        if kind[i] < 0.1:
            text = f"{text} AND venue LIKE '%{_PARTS[part[i]]}%'"
        elif kind[i] < 0.2:
            text = f"({text}) OR ({others[i]})"
        texts.append(text)
    return TextWork("mixed", texts, _mixed_events(rng, n_events))


def make_booleans(n: int, n_events: int, seed: int = 1) -> TextWork:
    """Make the boolean work: ``n`` nested texts and ``n_events`` events.

    >>> print(min(make_booleans(20, 1).texts, key=len))
    a7 = 68 AND NOT (a15 = 41 OR a4 = 82)
    """
    rng = np.random.default_rng(seed)
    sizes = rng.integers(3, 31, n)
    texts = [_nested(rng, int(size), is_and=True) for size in sizes]
    values = rng.integers(0, 100, (n_events, _N_ATTRIBUTES))
    return TextWork("boolean", texts, pa.table({f"a{k}": values[:, k].copy() for k in range(_N_ATTRIBUTES)}))


def make_circles(n: int, n_events: int, seed: int = 1) -> TextWork:
    """Make the circles: ``n`` places with 1 to 100 km around them, all over the globe, and points as events.

    >>> print(make_circles(1, 1).texts[0])
    S_DWITHIN(where, POINT(4.256 64.28), 4.204, 'km')
    """
    centers, radii, points = _circles(np.random.default_rng(seed), n, n_events)
    texts = [
        f"S_DWITHIN(where, POINT({x!r} {y!r}), {radius!r}, 'km')"
        for (x, y), radius in zip(centers.tolist(), radii.tolist(), strict=True)
    ]
    events = pa.table({"where": pa.array(shapely.to_wkb(shapely.points(points)), pa.binary())})
    return TextWork("circles", texts, events, Schema({"where": Region(geodetic=True)}))


def make_circle_boxes(n: int, n_events: int, seed: int = 1) -> TextWork:
    """Make the same circles as boxes of longitude and latitude, two numbers, as one would write them without them."""
    centers, radii, points = _circles(np.random.default_rng(seed), n, n_events)
    texts = []
    for (x, y), radius in zip(centers.tolist(), radii.tolist(), strict=True):
        boxes = bounds_of_circle((x, y, x, y), 1000 * radius)
        texts.append(
            " OR ".join(f"x BETWEEN {a!r} AND {b!r} AND y BETWEEN {c!r} AND {d!r}" for (a, b), (c, d) in boxes)
        )
    return TextWork("circle_boxes", texts, pa.table({"x": points[:, 0].copy(), "y": points[:, 1].copy()}))


def make_nested(n: int, n_events: int, seed: int = 1) -> TextWork:
    """Make the nested work: the boxes of uniform4 on the values of two objects.

    >>> print(make_nested(1, 1).texts[0][:27])
    order.price BETWEEN 496.230
    """
    work = _uniform_inside(n, n_events, seed, _PATHS)
    columns = iter(work.events.columns)
    objects = {
        name: pa.StructArray.from_arrays([next(columns).chunk(0) for _ in fields], list(fields))
        for name, fields in _OBJECTS.items()
    }
    return replace(work, name="nested", events=pa.table(objects), schema=Schema(dict.fromkeys(_PATHS, Number())))


def make_nested_flat(n: int, n_events: int, seed: int = 1) -> TextWork:
    """Make the nested work with a column for each value."""
    return _uniform_inside(n, n_events, seed, tuple(path.replace(".", "_") for path in _PATHS))


def _uniform_inside(n: int, n_events: int, seed: int, names: tuple[str, ...]) -> TextWork:
    boxes = replace(make_boxes("uniform4", n, n_events, seed), names=names)
    points = {name: boxes.points[:, axis].copy() for axis, name in enumerate(names)}
    return TextWork("nested_flat", box_texts(boxes), pa.table(points))


def make_repeated(n: int, n_events: int, seed: int = 1) -> TextWork:
    """Make the repeated work: a tag and a price, of events with three tags.

    >>> print(make_repeated(1, 1).texts[0])
    tag = 'T4731' AND price BETWEEN 941.0 AND 951.0
    """
    texts, tags, prices = _tagged(np.random.default_rng(seed), n, n_events)
    events = pa.table({"tag": pa.array(tags.tolist(), pa.list_(pa.string())), "price": prices})
    return TextWork("repeated", texts, events, Schema({"tag": Many(String()), "price": Number()}))


def make_repeated_flat(n: int, n_events: int, seed: int = 1) -> TextWork:
    """Make the repeated work with one tag in an event: each event is there once for each of its tags."""
    texts, tags, prices = _tagged(np.random.default_rng(seed), n, -(-n_events // _TAGS_OF_AN_EVENT))
    events = pa.table({"tag": tags.ravel().tolist(), "price": np.repeat(prices, _TAGS_OF_AN_EVENT)})
    return TextWork("repeated_flat", texts, events.slice(0, n_events))


def _tagged(rng: np.random.Generator, n: int, n_events: int) -> tuple[list[str], npt.NDArray[np.str_], FloatArray]:
    """Draw texts, the tags of events and their prices."""
    wanted, low = rng.integers(0, _N_TAGS, n), rng.uniform(0, 990, n).round(1)
    texts = [
        f"tag = 'T{tag}' AND price BETWEEN {price!r} AND {round(price + 10, 1)!r}"
        for tag, price in zip(wanted.tolist(), low.tolist(), strict=True)
    ]
    tags = np.char.add("T", rng.integers(0, _N_TAGS, (n_events, _TAGS_OF_AN_EVENT)).astype(str))
    return texts, tags, rng.uniform(0, 1000, n_events)


def _circles(rng: np.random.Generator, n: int, n_events: int) -> _Arrays:
    """Draw centres, radii in km and events; all places of the globe are equally likely."""
    places = [
        np.column_stack((rng.uniform(-180, 180, size), np.degrees(np.arcsin(rng.uniform(-1, 1, size))))).round(3)
        for size in (n, n_events)
    ]
    return places[0], (10 ** rng.uniform(0, 2, n)).round(3), places[1]


def box_texts(work: BoxWork) -> list[str]:
    """Return closed boxes without open sides as CQL2 text.

    >>> print(box_texts(make_boxes("uniform4", 1, 1))[0][:24])
    a0 BETWEEN 496.230052099
    """
    return [
        " AND ".join(f"{name} BETWEEN {lo!r} AND {hi!r}" for name, lo, hi in zip(work.names, low, high, strict=True))
        for low, high in zip(work.lo.tolist(), work.hi.tolist(), strict=True)
    ]


def box_events(work: BoxWork, indices: range) -> list[dict[str, Any]]:
    """Return the events at some indices as clients publish them."""
    points = work.points[indices.start : indices.stop : indices.step].tolist()
    pairs = (zip(work.names, point, strict=True) for point in points)
    return [{name: value for name, value in event if not math.isnan(value)} for event in pairs]


def box_payloads(name: str, n: int) -> list[bytes]:
    """Return ``n`` events of a work as JSON, for systems that do not read them."""
    return [json.dumps(event).encode() for event in box_events(make_boxes(name, 1, n), range(n))]


# ---- boxes

_Arrays = tuple[FloatArray, FloatArray, FloatArray]


def _ranges4(values: Callable[[FloatArray], FloatArray]) -> Callable[[np.random.Generator, int, int], _Arrays]:
    """Four ranges per box, centres and events by ``values`` of uniform numbers, widths up to 100."""

    def make(rng: np.random.Generator, n: int, n_events: int) -> _Arrays:
        centre, half = values(rng.random((n, 4))), rng.random((n, 4)) * 100.0 / 2
        return centre - half, centre + half, values(rng.random((n_events, 4)))

    return make


def _log_uniform(u: FloatArray) -> FloatArray:
    """Density 1 / x, nearly, on [0, 1000)."""
    crowded: FloatArray = (1000.0**u - 1.0) * 1000.0 / 999.0
    return crowded


def _sparse20(rng: np.random.Generator, n: int, n_events: int) -> _Arrays:
    """Four of twenty attributes per box, attribute k with weight 1 / k, by the Gumbel trick."""
    d, chosen_per_box = 20, 4
    gumbel = np.log(_popularity(d)) - np.log(-np.log(rng.random((n, d))))
    chosen = np.argpartition(-gumbel, chosen_per_box, axis=1)[:, :chosen_per_box]
    centre, width = rng.random((n, chosen_per_box)) * 1000, rng.random((n, chosen_per_box)) * 100
    lo, hi = np.full((n, d), -np.inf), np.full((n, d), np.inf)
    np.put_along_axis(lo, chosen, centre - width / 2, 1)
    np.put_along_axis(hi, chosen, centre + width / 2, 1)
    return lo, hi, rng.random((n_events, d)) * 1000


def _dense20(rng: np.random.Generator, n: int, n_events: int) -> _Arrays:
    """Ten of twenty attributes per box, all equally often, 0.4 wide on [0, 1)."""
    d, chosen_per_box, width = 20, 10, 0.4
    chosen = np.argpartition(rng.random((n, d)), chosen_per_box, axis=1)[:, :chosen_per_box]
    least = rng.random((n, chosen_per_box)) * (1 - width)
    lo, hi = np.full((n, d), -np.inf), np.full((n, d), np.inf)
    np.put_along_axis(lo, chosen, least, 1)
    np.put_along_axis(hi, chosen, least + width, 1)
    return lo, hi, rng.random((n_events, d))


def _ads122(rng: np.random.Generator, n: int, n_events: int) -> _Arrays:
    """Whole numbers, up to 2,000 for an attribute, low ones often; a range is three tenths of the values wide."""
    d, chosen_per_box, n_present = 122, 8, 20
    n_values = rng.integers(2, 2_000, d)

    def draw(rows: int, size: int) -> tuple[npt.NDArray[np.int64], FloatArray]:
        gumbel = 1.5 * np.log(_popularity(d)) - np.log(-np.log(rng.random((rows, d))))
        chosen = np.argpartition(-gumbel, size, axis=1)[:, :size]
        return chosen, np.floor(n_values[chosen] * rng.random((rows, size)) ** 8)

    lo, hi = np.full((n, d), -np.inf), np.full((n, d), np.inf)
    for begin in range(0, n, _ROWS_AT_ONCE):
        part = slice(begin, min(begin + _ROWS_AT_ONCE, n))
        chosen, least = draw(part.stop - begin, chosen_per_box)
        width = np.where(rng.random(least.shape) < 0.3, np.floor(0.3 * n_values[chosen]), 0.0)
        np.put_along_axis(lo[part], chosen, least, 1)
        np.put_along_axis(hi[part], chosen, least + width, 1)
    points = np.full((n_events, d), np.nan)
    chosen, values = draw(n_events, n_present)
    np.put_along_axis(points, chosen, values, 1)
    return lo, hi, points


def _stock(rng: np.random.Generator, n: int, n_events: int) -> _Arrays:
    """Half of the prices have two sides, a quarter each a lower or an upper one; half of the boxes ask for change."""
    popularity = _popularity(_N_STOCKS)
    base = 10 + (np.arange(_N_STOCKS) * 7919 % 490)
    lo, hi = np.full((n, 4), -np.inf), np.full((n, 4), np.inf)
    symbol = rng.choice(_N_STOCKS, n, p=popularity)
    lo[:, 0] = hi[:, 0] = symbol
    price = base[symbol] * np.exp(rng.normal(0, 0.1, n))
    both, up = rng.random(n) < 0.5, rng.random(n) < 0.5
    lo[:, 1] = np.where(both | up, price, -np.inf)
    hi[:, 1] = np.where(both, price * 1.02, np.where(up, np.inf, price))
    lo[:, 2] = np.exp(rng.normal(8, 1.5, n))
    half = rng.random(n) < 0.5
    hi[half, 3] = rng.normal(-2, 1, half.sum())
    seen = rng.choice(_N_STOCKS, n_events, p=popularity)
    columns = [seen.astype(np.float64), base[seen] * np.exp(rng.normal(0, 0.1, n_events))]
    columns += [np.exp(rng.normal(8, 1.5, n_events)), rng.normal(0, 2, n_events)]
    return lo, hi, np.stack(columns, axis=1)


def _popularity(n: int) -> FloatArray:
    """Return Zipf's weights: 1, 1/2, 1/3 and so on, in all 1."""
    weights = 1.0 / np.arange(1, n + 1)
    normed: FloatArray = weights / weights.sum()
    return normed


# ---- texts


def _plain_texts(rng: np.random.Generator, n: int) -> list[str]:
    """Half ask for a symbol and a limit of its price, half for three ranges."""
    symbol = rng.choice(_N_SYMBOLS, n, p=_popularity(_N_SYMBOLS))
    centre, width = rng.random((n, 3)) * (1000, 1000, 100), rng.random((n, 3)) * (100, 100, 20)
    lo, hi = centre - width / 2, centre + width / 2
    return [
        f"symbol = 'S{symbol[i]:06}' AND price {'<=' if centre[i, 1] < 500 else '>='} {centre[i, 0]:.2f}"
        if centre[i, 2] < 50
        else " AND ".join(
            f"{name} BETWEEN {lo[i, k]:.2f} AND {hi[i, k]:.2f}" for k, name in enumerate(("price", "volume", "rating"))
        )
        for i in range(n)
    ]


def _nested(rng: np.random.Generator, size: int, *, is_and: bool) -> str:
    """Return ``size`` conditions: some side by side, the others in groups of the other operator; a tenth is negated."""
    parts = []
    while size > 0:
        own = 1 if rng.random() < 0.6 or size == 1 else int(rng.integers(2, min(size, 5) + 1))
        part = _condition(rng) if own == 1 else f"({_nested(rng, own, is_and=not is_and)})"
        if rng.random() < 0.1:
            part = f"NOT {part}" if own > 1 else f"NOT ({part})"
        parts.append(part)
        size -= own
    return (" AND " if is_and else " OR ").join(parts)


def _condition(rng: np.random.Generator) -> str:
    """Return an equality or a range of up to 60 of 100 values, on an attribute that is one of the first more often."""
    attribute, value = int(_N_ATTRIBUTES * rng.random() ** 2), int(rng.integers(0, 100))
    if rng.random() < 0.2:
        return f"a{attribute} = {value}"
    return f"a{attribute} BETWEEN {value} AND {value + int(rng.integers(5, 60))}"


def _mixed_events(rng: np.random.Generator, n: int) -> pa.Table:
    symbol = rng.choice(_N_SYMBOLS, n, p=_popularity(_N_SYMBOLS))
    columns: dict[str, Any] = {
        "symbol": np.array([f"S{number:06}" for number in symbol], dtype=object),
        "price": rng.random(n) * 1000,
        "volume": rng.random(n) * 1000,
        "rating": rng.random(n) * 100,
        "venue": np.array(_VENUES, dtype=object)[rng.integers(0, len(_VENUES), n)],
    }
    return pa.table({name: pa.array(values, mask=rng.random(n) < 0.2) for name, values in columns.items()})


BOX_WORKS: Final[dict[str, Callable[[np.random.Generator, int, int], _Arrays]]] = {
    "uniform4": _ranges4(lambda u: u * 1000.0),
    "zipf4": _ranges4(_log_uniform),
    "sparse20": _sparse20,
    "dense20": _dense20,
    "ads122": _ads122,
    "stock": _stock,
}
#: Works of texts.
TEXT_WORKS: Final[dict[str, Callable[[int, int, int], TextWork]]] = {
    "mixed": make_texts,
    "boolean": make_booleans,
    "circles": make_circles,
    "circle_boxes": make_circle_boxes,
    "nested": make_nested,
    "nested_flat": make_nested_flat,
    "repeated": make_repeated,
    "repeated_flat": make_repeated_flat,
}
#: All workloads by name, texts last.
WORKS: Final = (*BOX_WORKS, *TEXT_WORKS)
