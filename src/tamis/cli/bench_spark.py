"""``tamis bench spark``: the pipeline's match beside Spark's ceiling and the joins that Spark and DuckDB offer."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tamis.cli.bench_options import chosen, sizes_of
from tamis.cli.options import Json, examples

if TYPE_CHECKING:
    from tamis.spark.bench_work import BoxFiles, Timing

__all__ = ["EPILOG", "spark"]

EPILOG = examples(
    "tamis bench spark --size 10k --events 200000",
    "tamis bench spark --json > rows.jsonl",
    'tamis bench spark --system "identity,tamis" --size 100k,1M',
)

#: Subscriptions up to which joins are measured beside, unless they are asked for by name.
_MOST_FOR_JOINS = 100_000
#: Files of events: tasks share them, and a join is tuned on one.
_FILES = 16


def spark(
    size: Annotated[str, typer.Option(metavar="N,M", help="How many subscriptions, as 500, 10k or 1M.")] = "100k,1M",
    events: Annotated[int, typer.Option(min=1_000, metavar="N", help="How many events.")] = 4_000_000,
    system: Annotated[str, typer.Option(metavar="A,B", help="Which systems; all of them otherwise.")] = "",
    master: Annotated[str, typer.Option(metavar="URL", help="Spark's master.")] = "local[2]",
    repeat: Annotated[int, typer.Option(min=1, metavar="N", help="The best of so many times counts.")] = 3,
    json: Json = False,
) -> None:
    """Measure `tamis.spark.match` on four-attribute boxes (uniform4), in one run with what else could be used.

    ``ratio`` is the rate over that of Spark's identity `mapInArrow`, the most that any Python in Spark can do. Joins
    are left out above 100k subscriptions, where they take too long or too much memory, unless --system names them.
    """
    from tamis.cli.screen import write_json_lines
    from tamis.spark import session
    from tamis.spark.bench import OURS, PEERS

    systems = chosen("system", system, (*OURS, *PEERS))
    running = session(master, name="tamis bench", spark_driver_memory="8g")
    found: list[_Row] = []
    for n in sizes_of(size):
        wanted = [name for name in systems if system or name in OURS or n <= _MOST_FOR_JOINS]
        rates: dict[str, float] = {}
        with tempfile.TemporaryDirectory(prefix="tamis-bench-") as place:
            for timing in _measured(running, Path(place), n, events, wanted, repeat):
                rates[timing.system] = timing.rate
                found.append(_Row(n, timing, *_ratios(timing, rates)))
                if json:
                    write_json_lines([found[-1].as_json()])
    if not json:
        _show(found)


@dataclass(frozen=True)
class _Row:
    """A timing among others: its rate over that of identity, and how many times as fast `match` is."""

    n: int
    timing: Timing
    ratio: float | None
    times: float | None

    def as_json(self) -> dict[str, Any]:
        one = self.timing
        known = {"work": "uniform4", "n": self.n, "system": one.system, "rate": round(one.rate), "unit": one.unit}
        about = {"events": one.events, "pairs": one.pairs, "note": one.note}
        return {**known, "ratio": self.ratio, "tamis_is": self.times, **about}


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
    from tamis.workload.bench.report import size_name

    table = make_table(
        "n", "system", "rate", "unit", "of identity", "tamis is", right=("n", "rate", "of identity", "tamis is")
    )
    for row in rows:
        share = "" if row.ratio is None else f"{row.ratio:.0%}" if row.ratio >= 0.01 else f"{row.ratio:.3%}"
        times = "" if row.times is None else f"{row.times:,.1f} x"
        table.add_row(size_name(row.n), row.timing.system, f"{row.timing.rate:,.0f}", row.timing.unit, share, times)
    console = output()
    console.print(table)
    for row in rows:
        console.say(f"{size_name(row.n)}, {row.timing.system}: {row.timing.note}", "dim")
    console.say("Compare ratios of one run: rates depend on what else the machine does. Goals: docs/spark.md")


def _measured(running: Any, place: Path, n: int, events: int, systems: list[str], repeat: int) -> Iterator[Timing]:
    from tamis.model.schema import Schema
    from tamis.model.types import Number
    from tamis.spark.bench import measure

    files = _write_files(place, n, events)
    schema = Schema({name: Number() for name in files.names})
    yield from measure(running, files, schema, place / "snapshots", systems=systems, repeat=repeat)


def _write_files(place: Path, n: int, n_events: int) -> BoxFiles:
    """Write boxes, as columns and as texts, and events."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    from tamis.spark.bench_work import BoxFiles
    from tamis.workload.boxes import make_boxes

    work = make_boxes("uniform4", n, n_events, seed=1)
    sides = {f"{name}_{end}": side[:, i].copy() for i, name in enumerate(work.names) for end, side in _ends(work)}
    pq.write_table(pa.table({"id": np.arange(n), **sides}), place / "subscriptions.parquet")
    pq.write_table(pa.table({"id": np.arange(n), "filter": _texts(work)}), place / "texts.parquet")
    folder = place / "events"
    folder.mkdir()
    table = work.events.append_column("event_id", pa.array(np.arange(n_events)))
    step = -(-n_events // _FILES)
    for i in range(_FILES):
        pq.write_table(table.slice(i * step, step), folder / f"{i}.parquet")
    mean = tuple(float(one) for one in (work.hi - work.lo).mean(axis=0))
    tables = (place / "subscriptions.parquet", place / "texts.parquet")
    return BoxFiles(*tables, folder, folder / "0.parquet", n_events, work.names, mean)


def _texts(work: Any) -> list[str]:
    """Write each box as people do, rounded to what a person would type."""
    return [
        " AND ".join(f"{name} BETWEEN {a:.3f} AND {b:.3f}" for name, a, b in zip(work.names, lo, hi, strict=True))
        for lo, hi in zip(work.lo.tolist(), work.hi.tolist(), strict=True)
    ]


def _ends(work: Any) -> list[tuple[str, Any]]:
    return [("lo", work.lo), ("hi", work.hi)]
