"""Rows of an experiment, and the small questions that judges and charts ask of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tamis_lab.intervals import Interval, bootstrap

__all__ = [
    "Row",
    "Rows",
    "changed",
    "column",
    "grouped",
    "interval",
    "mean",
    "per_seed",
    "ratio",
    "slopes",
    "steps",
    "value_at",
    "values_of",
    "where",
]

Row = dict[str, Any]
Rows = Sequence[Row]


def where(rows: Rows, /, **wanted: Any) -> list[Row]:
    """Return the rows with these values; a list or tuple means any of its values.

    >>> where([{"d": 2}, {"d": 3}, {"k": 1}], d=(3, 4))
    [{'d': 3}]
    """
    return [row for row in rows if all(name in row and _fits(row[name], value) for name, value in wanted.items())]


def _fits(value: Any, wanted: Any) -> bool:
    return value in wanted if isinstance(wanted, list | tuple) else bool(value == wanted)


def column(rows: Rows, name: str) -> list[Any]:
    """Return one column of the rows that have it."""
    return [row[name] for row in rows if name in row]


def values_of(rows: Rows, name: str) -> list[Any]:
    """Return the distinct values of a column, sorted."""
    return sorted(set(column(rows, name)))


def value_at(rows: Rows, name: str, /, **wanted: Any) -> Any:
    """Return the value of a column in the only row that has the wanted values."""
    [row] = where(rows, **wanted)
    return row[name]


def mean(rows: Rows, name: str, /, **wanted: Any) -> float:
    """Return the mean of a column over the rows that have the wanted values.

    >>> mean([{"d": 2, "n": 1}, {"d": 2, "n": 4}, {"d": 3, "n": 9}], "n", d=2)
    2.5
    """
    return float(np.mean(column(where(rows, **wanted), name)))


def per_seed(rows: Rows, name: str, /, **wanted: Any) -> list[float]:
    """Return the mean of a column over the rows of each seed, in the order of seeds; no seed counts as seed 0.

    >>> per_seed([{"seed": 1, "n": 5}, {"seed": 0, "n": 1}, {"seed": 0, "n": 3}], "n")
    [2.0, 5.0]
    """
    values: dict[int, list[float]] = {}
    for row in where(rows, **wanted):
        if name in row:
            values.setdefault(row.get("seed", 0), []).append(float(row[name]))
    return [float(np.mean(values[seed])) for seed in sorted(values)]


def interval(rows: Rows, name: str, /, **wanted: Any) -> Interval:
    """Return the mean of a column over seeds, with its bootstrap interval."""
    return bootstrap(per_seed(rows, name, **wanted))


def ratio(rows: Rows, name: str, /, top: Row, bottom: Row, **wanted: Any) -> Interval:
    """Return how many times as large a column is at ``top`` as at ``bottom``, compared within each seed.

    >>> ratio([{"d": 2, "n": 1}, {"d": 3, "n": 4}], "n", top={"d": 3}, bottom={"d": 2}).middle
    4.0
    """
    return bootstrap(_ratios(rows, name, {**wanted, **top}, {**wanted, **bottom}))


def _ratios(rows: Rows, name: str, top: Row, bottom: Row) -> list[float]:
    above, below = per_seed(rows, name, **top), per_seed(rows, name, **bottom)
    return [a / b for a, b in zip(above, below, strict=True)]


def steps(rows: Rows, name: str, /, by: str, at_once: int = 1, **wanted: Any) -> list[Interval]:
    """Return the ratios of a column from each value of ``by`` to the next; ``at_once`` is that of `bootstrap`."""
    chosen = where(rows, **wanted)
    values = values_of(chosen, by)
    pairs = zip(values[1:], values, strict=False)
    return [bootstrap(_ratios(chosen, name, {by: later}, {by: earlier}), at_once) for later, earlier in pairs]


def slopes(rows: Rows, name: str, /, by: str, **wanted: Any) -> list[float]:
    """Return the exponent with which a column grows with ``by``, from its least to its greatest value, per seed.

    >>> slopes([{"n": 10, "t": 1.0}, {"n": 1_000, "t": 10.0}], "t", by="n")
    [0.5]
    """
    chosen = where(rows, **wanted)
    values = values_of(chosen, by)
    first, last = (per_seed(chosen, name, **{by: value}) for value in (values[0], values[-1]))
    return [float(np.log(b / a) / np.log(values[-1] / values[0])) for a, b in zip(first, last, strict=True)]


def grouped(rows: Rows, *names: str) -> dict[tuple[Any, ...], list[Row]]:
    """Return the rows by their values of some columns, in the order in which these come first.

    >>> grouped([{"d": 2, "n": 1}, {"d": 3, "n": 1}, {"d": 2, "n": 5}], "d")[2,]
    [{'d': 2, 'n': 1}, {'d': 2, 'n': 5}]
    """
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        if all(name in row for name in names):
            groups.setdefault(tuple(row[name] for name in names), []).append(row)
    return groups


def changed(**changes: Any) -> Callable[[Row], Row]:
    """Return a function that sets columns of a row, where the row has them; a callable computes from the row.

    >>> changed(n=lambda row: 2 * row["n"], d=7)({"n": 4})
    {'n': 8}
    """

    def change(row: Row) -> Row:
        present = {name: value for name, value in changes.items() if name in row}
        return {**row, **{name: value(row) if callable(value) else value for name, value in present.items()}}

    return change
