"""``tamis demo storms``: half a century of Atlantic storms, and the counties that each of them reached."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from tamis.cli.options import Json, examples

__all__ = ["EPILOG", "storms"]

EPILOG = examples("tamis demo storms", "tamis demo storms --json", "tamis demo storms --spark")

#: Subscriptions that are listed, the busiest first.
_SHOWN = 10


def storms(
    spark: Annotated[
        bool, typer.Option("--spark", help="As a pipeline on Spark: files in, deliveries and a map out.")
    ] = False,
    out: Annotated[Path, typer.Option(metavar="DIRECTORY", help="Where the files of --spark go.")] = Path("tamis-demo"),
    json: Json = False,
) -> None:
    """Match 19,537 storm positions against 3,400 county subscriptions; show the counties with most matches."""
    if spark:
        from tamis.cli.pipeline.app import demo

        demo(out=out, json=json)
        return
    from tamis.cli.screen import make_table, output, write_json

    run = _match()
    if json:
        write_json(run)
        return
    output().say(
        f"{run['subscriptions']:,} questions meet {run['events']:,} positions of storms: {run['deliveries']:,} "
        f"deliveries in {run['match_seconds']:.2f} s (questions read in {run['load_seconds']:.1f} s)",
        "bold",
    )
    table = make_table("subscription", "storm positions", right=("storm positions",))
    for row in run["busiest"]:
        table.add_row(str(row["subscription"]), f"{row['deliveries']:,}")
    output().print(table)
    output().say("The same on Spark, with files and a map: tamis demo storms --spark", "dim")


def _match() -> dict[str, Any]:
    import numpy as np

    from tamis.demo import datasets
    from tamis.engine import Engine
    from tamis.model.schema import Schema
    from tamis.model.tables import SubscriptionTable

    events, questions = datasets.storms(), datasets.county_subscriptions()
    start = time.perf_counter()
    engine = Engine(Schema.from_arrow(events))
    engine.subscribe_table(SubscriptionTable.from_arrow(questions))
    loaded = time.perf_counter()
    matches = engine.match_table(events)
    matched = time.perf_counter()
    ids, counts = np.unique(np.asarray(matches.subscription, dtype=str), return_counts=True)
    order = np.argsort(-counts, kind="stable")[:_SHOWN]
    return {
        "subscriptions": len(engine),
        "events": events.num_rows,
        "deliveries": int(counts.sum()),
        "load_seconds": loaded - start,
        "match_seconds": matched - loaded,
        "busiest": [{"subscription": str(ids[i]), "deliveries": int(counts[i])} for i in order],
    }
