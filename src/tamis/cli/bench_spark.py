"""``tamis bench spark``: the pipeline's match beside Spark's ceiling and the joins that Spark and DuckDB offer."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
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
    from tamis.cli.screen import make_table, output, write_json_lines
    from tamis.spark import session
    from tamis.spark.bench import OURS, PEERS

    systems = chosen("system", system, (*OURS, *PEERS))
    running = session(master, name="tamis bench", spark_driver_memory="8g")
    right = ("rate", "of identity", "tamis is")
    table = make_table("subscriptions", "system", "rate", "unit", "of identity", "tamis is", "", right=right)
    for n in sizes_of(size):
        wanted = [name for name in systems if system or name in OURS or n <= _MOST_FOR_JOINS]
        with tempfile.TemporaryDirectory(prefix="tamis-bench-") as place:
            rates: dict[str, float] = {}
            for row in _measured(running, Path(place), n, events, wanted, repeat):
                rates[row.system] = row.rate
                if json:
                    write_json_lines([_as_json(row, n, rates)])
                table.add_row(f"{n:,}", row.system, f"{row.rate:,.0f}", row.unit, *_shown(row, rates), row.note)
    if not json:
        output().print(table)
        output().say(
            "Compare ratios of one run: rates depend on what else the machine does. Goals: docs/spark.md", "dim"
        )


def _as_json(row: Timing, n: int, rates: dict[str, float]) -> dict[str, Any]:
    known = {"work": "uniform4", "n": n, "system": row.system, "rate": round(row.rate), "unit": row.unit}
    ratio, times = _ratios(row, rates)
    return {**known, "ratio": ratio, "tamis_is": times, "events": row.events, "pairs": row.pairs, "note": row.note}


def _ratios(row: Timing, rates: dict[str, float]) -> tuple[float | None, float | None]:
    """Return the rate over that of identity, and how many times as fast `match` is; None where that says nothing."""
    if row.unit != "events/s":
        return None, None
    ceiling, ours = rates.get("identity"), rates.get("tamis")
    return (row.rate / ceiling if ceiling else None), (ours / row.rate if ours else None)


def _shown(row: Timing, rates: dict[str, float]) -> tuple[str, str]:
    ratio, times = _ratios(row, rates)
    share = "" if ratio is None else f"{ratio:.0%}" if ratio >= 0.01 else f"{ratio:.3%}"
    is_peer = times is not None and row.system not in ("identity", "tamis")
    return share, f"{times:,.1f} x" if is_peer else ""


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
