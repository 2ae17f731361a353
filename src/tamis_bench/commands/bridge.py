"""``tamis bench bridge``: events per second from NATS into a broker, and out again."""

from __future__ import annotations

from typing import Annotated

import typer

from tamis.cli.options import Json, examples
from tamis_bench.commands.options import shown
from tamis_bench.commands.serve import print_rows

__all__ = ["EPILOG", "bridge"]

EPILOG = examples("tamis bench bridge --quick", "tamis bench bridge --events 500000 --json")


def bridge(
    events: Annotated[int, typer.Option(min=1, help="Messages in each direction.")] = 200_000,
    quick: Annotated[bool, typer.Option("--quick", help="A look in some seconds: small, and rough.")] = False,
    json: Json = False,
) -> None:
    """Measure `tamis bridge nats`: JetStream, broker and bridge as processes on this machine, everything durable."""
    from tamis.runtime.extra import demand_server

    demand_server("tamis bench bridge")
    from tamis_bench.serving.bridge import measure_bridge

    rows = list(shown(measure_bridge(min(events, 20_000) if quick else events), json))
    if not json:
        print_rows(rows)
