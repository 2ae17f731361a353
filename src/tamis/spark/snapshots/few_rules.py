"""In the driver: what few rules of a table change in a version, decided without Spark.

A change of a thousand rules among a million leaves some thirty thousand rules of both sides to compare: less work than
Spark's planning of one more job. `differences` decides the same for more rules than fit here. See decision 0112.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from tamis.spark.subscriptions.compiling import Compile, compile_batches, end_of

__all__ = ["DELETED", "FewRules", "decide"]

#: The column of changes that says whether the rule leaves.
DELETED = "__tamis_deleted"

State = Literal["added", "changed", "removed", "unchanged"]
#: (namespace, id); rows without an id are about one rule.
Key = tuple[str, str | int | None]
Row = dict[str, Any]


@dataclass(frozen=True)
class FewRules:
    """What a difference is: rows (part, row) that leave, accepted and rejected rows, and rules by their state."""

    leaving: pa.Table
    entering: pa.Table
    rejected: pa.Table
    counts: Counter[State]


def decide(rules: pa.Table, saved: pa.Table, task: Compile, form: pa.Schema, *, whole: bool) -> FewRules:
    """Return what the given rules change in the known ones of a version.

    ``rules`` has id, namespace, filter, expires, metadata and `DELETED`; ``saved`` part, row, namespace, id, filter,
    expires and metadata. With ``whole`` a known rule that is not given leaves. ``form`` is that of compiled rows.
    """
    rules_by_key = _by_key(rules)
    saved_by_key = {key: rows[-1] for key, rows in _by_key(saved).items() if whole or key in rules_by_key}
    states: dict[Key, State] = {}
    unclear: list[Row] = []
    for key in saved_by_key.keys() | rules_by_key.keys():
        wanted = [row for row in rules_by_key.get(key, ()) if not row[DELETED]]
        rows = [*_without_repeats(wanted)]
        if len(rows) == 1 and key in saved_by_key and _is_same(rows[0], saved_by_key[key], end_of(rows[0]["expires"])):
            states[key] = "unchanged"
        else:
            unclear += rows
            if key in saved_by_key:
                states[key] = "removed"  # unless one of its rows is accepted
    accepted, rejected = _compiled(unclear, task, form, rules.schema)
    enters = [_settle(row, saved_by_key, states) for row in accepted.select(_COMPARED).to_pylist()]
    leaving = [saved_by_key[key] for key, state in states.items() if state in ("changed", "removed")]
    leaving_rows = pa.table({name: pa.array([row[name] for row in leaving], pa.int32()) for name in ("part", "row")})
    entering = accepted.filter(pa.array(enters, pa.bool_()))
    return FewRules(leaving_rows, entering, rejected, Counter(states.values()))


_COMPARED = ["namespace", "id", "filter", "expires", "metadata"]


def _settle(row: Row, saved: dict[Key, Row], states: dict[Key, State]) -> bool:
    """Note the state of a rule of which a row is accepted; return whether the row enters the version."""
    key = (row["namespace"], row["id"])
    if key not in saved:
        states[key] = "added"
    else:
        states[key] = "unchanged" if _is_same(row, saved[key], row["expires"]) else "changed"
    return states[key] != "unchanged"


def _by_key(table: pa.Table) -> dict[Key, list[Row]]:
    rules: dict[Key, list[Row]] = {}
    for row in table.to_pylist():
        rules.setdefault((row["namespace"], row["id"]), []).append(row)
    return rules


def _is_same(row: Row, saved: Row, expires: object) -> bool:
    """Whether a row says what the version holds; a box of the version has no text and equals nothing."""
    if row["filter"] is None or row["filter"] != saved["filter"] or expires != saved["expires"]:
        return False
    return dict(row["metadata"] or ()) == dict(saved["metadata"] or ())


def _without_repeats(rows: Sequence[Row]) -> Iterator[Row]:
    """Yield one of identical rows; all of them, marked, where rows of one rule differ."""
    contents = {(row["filter"], row["expires"], tuple(sorted(dict(row["metadata"] or ()).items()))) for row in rows}
    is_conflict = len(contents) > 1
    for row in rows if is_conflict else rows[:1]:
        yield {**row, "conflict": is_conflict}


def _compiled(rows: list[Row], task: Compile, form: pa.Schema, given_form: pa.Schema) -> tuple[pa.Table, pa.Table]:
    """Return accepted and rejected rows, compiled as the workers do."""
    batch = pa.RecordBatch.from_pylist(rows, schema=given_form.append(pa.field("conflict", pa.bool_())))
    compiled = pa.Table.from_batches(compile_batches(iter([batch]), task=task, form=form), form)
    is_accepted = compiled["reason"].is_null()
    accepted = compiled.filter(is_accepted).drop_columns(["reason", "position"])
    return accepted, compiled.filter(pa.compute.invert(is_accepted)).drop_columns(["lo", "hi"])
