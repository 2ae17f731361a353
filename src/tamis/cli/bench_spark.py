"""``tamis bench spark``: the pipeline's match beside Spark's ceiling and the joins that Spark and DuckDB offer."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tamis.cli.bench_options import chosen, sizes_of
from tamis.cli.options import Json, examples

if TYPE_CHECKING:
    from tamis.spark.bench import BoxFiles, Timing

__all__ = ["EPILOG", "spark"]

EPILOG = examples(
    "tamis bench spark --size 10k --events 200000",
    "tamis bench spark --size 100k,1M --json > rows.jsonl",
    'tamis bench spark --system "identity,tamis"',
)

_DUCKDB = ("duckdb binned", "duckdb range")
_DUCKDB_FEW = 2_000


def spark(
    size: Annotated[str, typer.Option(metavar="N,M", help="How many subscriptions, as 500, 10k or 1M.")] = "100k",
    events: Annotated[int, typer.Option(min=1_000, metavar="N", help="How many events.")] = 4_000_000,
    system: Annotated[str, typer.Option(metavar="A,B", help="Which systems; all of them otherwise.")] = "",
    master: Annotated[str, typer.Option(metavar="URL", help="Spark's master.")] = "local[2]",
    repeat: Annotated[int, typer.Option(min=1, metavar="N", help="The best of so many times counts.")] = 3,
    json: Json = False,
) -> None:
    """Measure `tamis.spark.match` on four-attribute boxes (uniform4), in one run with what else could be used.

    ``ratio`` is the rate over that of Spark's identity `mapInArrow`, the most that any Python in Spark can do.
    """
    from tamis.cli.screen import make_table, output, write_json_lines
    from tamis.spark import session
    from tamis.spark.bench import SYSTEMS

    systems = chosen("system", system, (*SYSTEMS, *_DUCKDB))
    running = session(master, name="tamis bench")
    table = make_table("subscriptions", "system", "events/s", "of identity", "pairs", "", right=("events/s", "pairs"))
    for n in sizes_of(size):
        with tempfile.TemporaryDirectory(prefix="tamis-bench-") as place:
            ceiling = None
            for row in _measured(running, Path(place), n, events, systems, repeat):
                ceiling = row.rate if row.system == "identity" else ceiling
                ratio = None if ceiling is None else row.rate / ceiling
                if json:
                    write_json_lines([_as_json(row, n, ratio)])
                shown = "" if ratio is None else f"{ratio:.0%}" if ratio >= 0.01 else f"{ratio:.3%}"
                table.add_row(f"{n:,}", row.system, f"{row.rate:,.0f}", shown, f"{row.pairs:,}", row.note)
    if not json:
        output().print(table)


def _as_json(row: Timing, n: int, ratio: float | None) -> dict[str, Any]:
    known = {"work": "uniform4", "n": n, "system": row.system, "rate": round(row.rate), "unit": "events/s"}
    return {**known, "ratio": ratio, "events": row.events, "pairs": row.pairs, "note": row.note}


def _measured(running: Any, place: Path, n: int, events: int, systems: list[str], repeat: int) -> Iterator[Timing]:
    from tamis.model.schema import Schema
    from tamis.model.types import Number
    from tamis.spark.bench import SYSTEMS, measure

    files = _write_files(place, n, events)
    schema = Schema({name: Number() for name in files.names})
    of_spark = tuple(name for name in SYSTEMS if name in systems)
    yield from measure(running, files, schema, place / "snapshots", systems=of_spark, repeat=repeat)
    yield from (_duckdb(files, name, repeat) for name in _DUCKDB if name in systems)


def _write_files(place: Path, n: int, n_events: int) -> BoxFiles:
    """Write boxes and events; the events in eight files, so that tasks share them."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    from tamis.spark.bench import BoxFiles
    from tamis.workload.boxes import make_boxes

    work = make_boxes("uniform4", n, n_events, seed=1)
    sides = {f"{name}_{end}": side[:, i].copy() for i, name in enumerate(work.names) for end, side in _ends(work)}
    pq.write_table(pa.table({"id": np.arange(n), **sides}), place / "subscriptions.parquet")
    folder = place / "events"
    folder.mkdir()
    table = work.events.append_column("event_id", pa.array(np.arange(n_events)))
    step = -(-n_events // 8)
    for i in range(8):
        pq.write_table(table.slice(i * step, step), folder / f"{i}.parquet")
    mean = tuple(float(one) for one in (work.hi - work.lo).mean(axis=0))
    return BoxFiles(place / "subscriptions.parquet", folder, work.names, mean)


def _ends(work: Any) -> list[tuple[str, Any]]:
    return [("lo", work.lo), ("hi", work.hi)]


def _duckdb(files: BoxFiles, system: str, repeat: int) -> Timing:
    """The same joins in DuckDB, which has no Python in its way."""
    from tamis.errors import MissingExtraError
    from tamis.spark.bench import Timing

    try:
        import duckdb
    except ImportError:
        raise MissingExtraError("DuckDB beside Spark", "bench") from None
    connection = duckdb.connect()
    events = f"(SELECT * FROM '{files.events}/*.parquet' {f'LIMIT {_DUCKDB_FEW}' if system.endswith('range') else ''})"
    [[n]] = connection.execute(f"SELECT count(*) FROM {events}").fetchall()
    best, pairs, note = float("inf"), 0, ""
    for width in (0.5, 1.0, 2.0) if system.endswith("binned") else (0.0,):
        query = f"SELECT count(*) FROM ({_join(files, events, width)})"
        for _ in range(repeat):
            start = time.perf_counter()
            [[pairs]] = connection.execute(query).fetchall()
            elapsed = time.perf_counter() - start
            if elapsed < best:
                best, note = elapsed, f"bins of {width} sides" if width else f"{n:,} events"
    return Timing(system, n / best, n, pairs, note)


def _join(files: BoxFiles, events: str, width: float) -> str:
    """Write the join, with bins on two attributes when they have a width."""
    boxes, conditions = f"'{files.subscriptions}'", []
    for i, (name, side) in enumerate(list(zip(files.names, files.sides, strict=True))[: 2 if width else 0]):
        first, last = (f"floor({name}_{end} / {side * width})::BIGINT" for end in ("lo", "hi"))
        boxes = f"(SELECT *, unnest(range({first}, {last} + 1)) AS b{i} FROM {boxes})"
        conditions.append(f"floor(e.{name} / {side * width})::BIGINT = s.b{i}")
    conditions += [f"e.{name} BETWEEN s.{name}_lo AND s.{name}_hi" for name in files.names]
    return f"SELECT e.event_id, s.id FROM {events} e JOIN {boxes} s ON {' AND '.join(conditions)}"
