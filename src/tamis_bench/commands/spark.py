"""``tamis bench spark``: the pipeline's match beside Spark's ceiling and the joins that Spark and DuckDB offer."""

from __future__ import annotations

import itertools
import math
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from tamis.cli.options import Json, examples
from tamis_bench.commands.options import chosen, sizes_of

if TYPE_CHECKING:
    from tamis_bench.spark.work import BoxFiles, Timing

__all__ = ["EPILOG", "spark"]

EPILOG = examples(
    "tamis bench spark --size 10k --events 200000",
    "tamis bench spark --json > rows.jsonl",
    'tamis bench spark --system "identity,tamis" --size 100k,1M',
    "tamis bench spark --work zipf4,sparse20 --size 10k --events 160000",
    'tamis bench spark --size 10k --system "covers_join,relation_join,relation by function"',
    'tamis bench spark --size 1M --system "sync,first job,s3 cold,s3 warm"',
    'tamis bench spark --size 1000 --system "text rules,text rules in 1 statement,text rules in 5 statements"',
)

#: Workloads of boxes; `tamis_bench.workloads.boxes` says what they are.
_WORKS = ("uniform4", "zipf4", "sparse20", "stock")
#: Subscriptions up to which joins are measured beside, unless they are asked for by name.
_MOST_FOR_JOINS = 100_000
#: Rows of each side up to which the joins of the papers are measured, unless they are asked for by name.
_MOST_FOR_PAPERS = 10_000
#: What is measured at every size.
_ALWAYS = ("identity", "tamis", "compile", "tamis laptop")
#: Files of events: tasks share them, and a join is tuned on one.
_FILES = 16


def spark(
    work: Annotated[str, typer.Option(metavar="A,B", help=f"Which workloads of {', '.join(_WORKS)}.")] = "uniform4",
    size: Annotated[str, typer.Option(metavar="N,M", help="How many subscriptions, as 500, 10k or 1M.")] = "100k,1M",
    events: Annotated[int, typer.Option(min=1_000, metavar="N", help="How many events.")] = 4_000_000,
    system: Annotated[str, typer.Option(metavar="A,B", help="Which systems; all of them otherwise.")] = "",
    master: Annotated[str, typer.Option(metavar="URL", help="Spark's master.")] = "local[2]",
    repeat: Annotated[int, typer.Option(min=1, metavar="N", help="Measure N times; the best counts.")] = 3,
    json: Json = False,
) -> None:
    """Measure `tamis.spark.match` on boxes, in one run with what else could be used.

    ``ratio`` is the rate over that of Spark's identity `mapInArrow`, the most that any Python in Spark can do. Joins
    are left out above 100k subscriptions, where they take too long or too much memory, unless --system names them.
    Besides: a sync of 1,000 changes, a first job in a new process, and snapshots in an S3 server on loopback.
    Their bins are chosen for the workload; a join that finds too many candidates is given fewer events.
    """
    from tamis.cli.screen import write_json_lines
    from tamis.spark import session
    from tamis_bench.spark.run import OURS, PEERS

    alone = _alone()
    systems = chosen("system", system, (*OURS, *PEERS, *alone))
    works, sizes = chosen("workload", work, _WORKS), sizes_of(size)
    running = session(master, name="tamis bench", spark_driver_memory="8g")
    rows: list[_Row] = []
    for n in sizes:
        for name in (name for name in systems if name in alone and (system or n <= alone[name].most)):
            rows.append(_Row(alone[name].kind, n, alone[name].measure(running, n, repeat), None, None))
            if json:
                write_json_lines([rows[-1].as_json()])
    for work_name, n in itertools.product(works, sizes):
        wanted = [name for name in systems if name not in alone]
        wanted = [name for name in wanted if system or name in _ALWAYS or n <= _MOST_FOR_JOINS]
        if not wanted:
            continue
        rates: dict[str, float] = {}
        with tempfile.TemporaryDirectory(prefix="tamis-bench-") as directory:
            for timing in _measured(running, Path(directory), work_name, n, events, wanted, repeat):
                rates[timing.system] = timing.rate
                rows.append(_Row(work_name, n, timing, *_ratios(timing, rates)))
                if json:
                    write_json_lines([rows[-1].as_json()])
    if not json:
        _show(rows)


class _Alone(NamedTuple):
    """A system that makes its own workload, and up to which size it is measured unless --system names it."""

    kind: str
    most: float
    measure: Callable[[Any, int, int], Timing]


def _alone() -> dict[str, _Alone]:
    from tamis_bench.spark.goals import GOALS
    from tamis_bench.spark.papers import PAPERS
    from tamis_bench.spark.text_rules import TEXT_RULES

    goals = {name: _Alone("goals", math.inf, measure) for name, measure in GOALS.items()}
    papers = {name: _Alone("papers", _MOST_FOR_PAPERS, measure) for name, measure in PAPERS.items()}
    return {**goals, **papers, **{name: _Alone("text", _MOST_FOR_PAPERS, rows) for name, rows in TEXT_RULES.items()}}


@dataclass(frozen=True)
class _Row:
    """A timing among others: its rate over that of identity, and how many times as fast `match` is."""

    work: str
    n: int
    timing: Timing
    ratio: float | None
    times: float | None

    def as_json(self) -> dict[str, Any]:
        timing = self.timing
        return {
            "work": self.work,
            "n": self.n,
            "system": timing.system,
            "rate": round(timing.rate),
            "unit": timing.unit,
            "ratio": self.ratio,
            "tamis_is": self.times,
            "events": timing.events,
            "pairs": timing.pairs,
            "note": timing.note,
        }


def _ratios(row: Timing, rates: dict[str, float]) -> tuple[float | None, float | None]:
    """Return the ratios of a row to what was measured before it; None where they say nothing."""
    if row.unit != "events/s":
        return None, None
    ceiling, ours = rates.get("identity"), rates.get("tamis")
    is_peer = row.system not in ("identity", "tamis")
    return (row.rate / ceiling if ceiling else None), (ours / row.rate if ours and is_peer else None)


def _show(rows: Sequence[_Row]) -> None:
    """Print the rates, and below them how each came about."""
    from tamis.cli.screen import make_table, output
    from tamis_bench.report import size_name

    right = ("n", "rate", "of identity", "tamis is")
    table = make_table("work", "n", "system", "rate", "unit", "of identity", "tamis is", right=right)
    for row in rows:
        share = "" if row.ratio is None else f"{row.ratio:.0%}" if row.ratio >= 0.01 else f"{row.ratio:.3%}"
        times = "" if row.times is None else f"{row.times:,.1f} x"
        rate = f"{row.timing.rate:,.0f}"
        table.add_row(row.work, size_name(row.n), row.timing.system, rate, row.timing.unit, share, times)
    console = output()
    console.print(table)
    for row in rows:
        console.say(f"{row.work}, {size_name(row.n)}, {row.timing.system}: {row.timing.note}", "dim")
    console.say("Compare ratios of one run: rates depend on what else the machine does. Goals: docs/spark.md")


def _measured(
    running: Any, place: Path, work: str, n: int, events: int, systems: list[str], repeat: int
) -> Iterator[Timing]:
    from tamis.model.schema import Schema
    from tamis.model.types import Number
    from tamis_bench.spark.run import measure

    files = _write_files(place, work, n, events)
    schema = Schema({name: Number() for name in files.names})
    yield from measure(running, files, schema, place / "snapshots", systems=systems, repeat=repeat)


def _write_files(place: Path, name: str, n: int, n_events: int) -> BoxFiles:
    """Write boxes, as columns and as texts, and events; plan the bins."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    from tamis_bench.spark.bins import BoxesAndEvents, plan_bins
    from tamis_bench.spark.work import BoxFiles
    from tamis_bench.workloads.boxes import make_boxes

    work = make_boxes(name, n, n_events, seed=1)
    sides = {f"{name}_{end}": side[:, i].copy() for i, name in enumerate(work.names) for end, side in _ends(work)}
    pq.write_table(pa.table({"id": np.arange(n), **sides}), place / "subscriptions.parquet")
    pq.write_table(pa.table({"id": np.arange(n), "filter": _texts(work)}), place / "texts.parquet")
    folder = place / "events"
    folder.mkdir()
    table = work.events.append_column("event_id", pa.array(np.arange(n_events)))
    step = -(-n_events // _FILES)
    for i in range(_FILES):
        pq.write_table(table.slice(i * step, step), folder / f"{i}.parquet")
    boxes = BoxesAndEvents(work.names, work.lo, work.hi, work.points)
    bins = tuple(plan_bins(boxes)), tuple(plan_bins(boxes, attributes=[2]))
    tables = (place / "subscriptions.parquet", place / "texts.parquet")
    return BoxFiles(*tables, folder, folder / "0.parquet", n_events, work.names, *bins)


def _texts(work: Any) -> list[str]:
    """Write each box as people do, rounded to what a person would type."""
    rows = zip(work.lo.tolist(), work.hi.tolist(), strict=True)
    return [" AND ".join(filter(None, map(_condition, work.names, lo, hi))) or "TRUE" for lo, hi in rows]


def _condition(name: str, lo: float, hi: float) -> str:
    """Write one range; an open one needs no words.

    >>> _condition("a", 1.0, 2.5), _condition("a", 3.0, 3.0), _condition("a", -math.inf, 2.0)
    ('a BETWEEN 1.000 AND 2.500', 'a = 3.000', 'a <= 2.000')
    """
    if lo == hi:
        return f"{name} = {lo:.3f}"
    if math.isfinite(lo) and math.isfinite(hi):
        return f"{name} BETWEEN {lo:.3f} AND {hi:.3f}"
    if math.isfinite(lo):
        return f"{name} >= {lo:.3f}"
    return f"{name} <= {hi:.3f}" if math.isfinite(hi) else ""


def _ends(work: Any) -> list[tuple[str, Any]]:
    return [("lo", work.lo), ("hi", work.hi)]
