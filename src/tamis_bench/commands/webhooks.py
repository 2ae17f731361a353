"""``tamis bench webhooks``: events per second from a broker to a receiver."""

from __future__ import annotations

from typing import Annotated

import typer

from tamis.cli.options import Json, examples
from tamis_bench.commands.options import shown
from tamis_bench.commands.serve import print_rows

__all__ = ["EPILOG", "webhooks"]

EPILOG = examples("tamis bench webhooks --quick", "tamis bench webhooks --batch 1 --parallel 16 --json")


def webhooks(
    events: Annotated[int, typer.Option(min=1, help="Events to deliver.")] = 100_000,
    batch: Annotated[int, typer.Option(min=1, max=1000, help="Events of one request.")] = 100,
    parallel: Annotated[int, typer.Option(min=1, max=16, help="Requests under way; 1: in order.")] = 1,
    quick: Annotated[bool, typer.Option("--quick", help="A look in some seconds: small, and rough.")] = False,
    json: Json = False,
) -> None:
    """Measure a webhook: broker and receiver are processes on this machine, everything durable and signed."""
    from tamis.runtime.extra import demand_server

    demand_server("tamis bench webhooks")
    from tamis_bench.serving.webhooks import measure_webhooks

    rows = list(shown(measure_webhooks(min(events, 20_000) if quick else events, batch, parallel), json))
    if not json:
        print_rows(rows)
