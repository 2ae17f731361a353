"""Few rules that may differ, decided by the driver: Spark spends more on planning a query than on a thousand rules.

The same rows are accepted and rejected, by the same functions, as where Spark's executors decide (`differences`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from tamis.model.schema import Schema
from tamis.spark.columns import arrow_form
from tamis.spark.subscriptions.compile import accepted_form
from tamis.spark.subscriptions.compiling import Compile, compile_batches

__all__ = ["FEW_RULES", "FewChanges", "decide"]

#: Rules of buckets that differ up to which the driver decides: some tens of megabytes.
FEW_RULES = 100_000

Key = tuple[str, Any]


@dataclass(frozen=True)
class FewChanges:
    """What follows from rules that may differ."""

    #: Accepted rules that are new or changed, and rejected ones with their reasons.
    entering: pa.Table
    rejected: pa.Table
    #: (part, row) of the rules that leave or are replaced.
    leaving: pa.Table
    #: How many rules are added, changed, removed, unchanged.
    counts: dict[str, int]


def decide(
    given: DataFrame, known: DataFrame, deleted: str, schema: Schema, id_kind: str, *, whole: bool
) -> FewChanges:
    """Compare given rules with those of a version; ``deleted`` is the column that says whether a rule leaves."""
    form = arrow_form(accepted_form(id_kind).add("reason", "string").add("position", "integer"), given)
    rows = given.toArrow().to_pylist()
    wanted = [row for row in rows if not row[deleted]]
    compiled = _compiled(wanted, schema, form)
    accepted = {(row["namespace"], row["id"]): row for row in compiled if row["reason"] is None}
    before = {(row["namespace"], row["id"]): row for row in known.toArrow().to_pylist()}
    asked = {(row["namespace"], row["id"]) for row in rows}
    states = dict(_states(accepted, before, asked, whole=whole))
    counts = {state: list(states.values()).count(state) for state in ("added", "changed", "removed", "unchanged")}
    gone = [before[key] for key, state in states.items() if state in ("changed", "removed")]
    enter = [accepted[key] for key, state in states.items() if state in ("added", "changed")]
    places = pa.schema([("part", pa.int32()), ("row", pa.int32())])
    return FewChanges(
        _table(enter, form).drop_columns(["reason", "position"]),
        _table([row for row in compiled if row["reason"] is not None], form).drop_columns(["lo", "hi"]),
        pa.Table.from_pylist([{"part": row["part"], "row": row["row"]} for row in gone], schema=places),
        counts,
    )


def _states(
    accepted: dict[Key, Any], before: dict[Key, Any], asked: set[Key], *, whole: bool
) -> Iterator[tuple[Key, str]]:
    """Yield the state of each rule that is accepted or that the version has."""
    for key, row in accepted.items():
        yield key, "added" if key not in before else "unchanged" if _said(row) == _said(before[key]) else "changed"
    for key in before.keys() - accepted.keys():
        if whole or key in asked:
            yield key, "removed"


def _said(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["filter"], row["expires"], dict(row["metadata"] or ())


def _compiled(rows: list[dict[str, Any]], schema: Schema, form: pa.Schema) -> list[dict[str, Any]]:
    """Return the rows compiled, one of identical ones; those that differ under one id are rejected."""
    versions: dict[Key, dict[tuple[Any, ...], dict[str, Any]]] = {}
    for row in rows:
        versions.setdefault((row["namespace"], row["id"]), {})[_written(row)] = row
    prepared = [row | {"conflict": len(kinds) > 1} for kinds in versions.values() for row in kinds.values()]
    fields = [(name, form.field(name).type) for name in ("id", "namespace", "metadata", "filter")]
    columns = pa.schema([*fields, ("expires", pa.string()), ("conflict", pa.bool_())])
    batches = pa.Table.from_pylist(prepared, schema=columns).to_batches()
    return [
        row
        for batch in compile_batches(iter(batches), task=Compile(schema.to_json(), None), form=form)
        for row in batch.to_pylist()
    ]


def _written(row: dict[str, Any]) -> tuple[Any, ...]:
    return (
        row["filter"],
        row["expires"],
        tuple(sorted(dict(row["metadata"] or ()).items(), key=str)),
        row["metadata"] is None,
    )


def _table(rows: list[dict[str, Any]], form: pa.Schema) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=form)
