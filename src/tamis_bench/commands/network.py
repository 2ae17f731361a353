"""``tamis bench network``: what links between brokers cost, beside one broker that holds everything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from tamis.cli.options import Json, examples
from tamis_bench.commands.options import chosen, shown, sizes_of

if TYPE_CHECKING:
    from tamis_bench.rows import Row

__all__ = ["EPILOG", "network"]

EPILOG = examples(
    "tamis bench network",
    "tamis bench network --topology pair --sizes 1000,10000,100000",
    "tamis bench network --topology pair --policy all --kind all --peer none --json > rows.jsonl",
    "tamis bench network --topology pair --sizes 1M --patience 2000 --markdown",
)


def network(
    sizes: Annotated[str, typer.Option(metavar="N,M", help="How many subscriptions, as 1000, 10k or 1M.")] = "1000",
    topology: Annotated[
        str, typer.Option(metavar="A,B", help="pair (2 brokers), line (3), tree (7, two levels of links), or all.")
    ] = "all",
    policy: Annotated[
        str, typer.Option(metavar="A,B", help="What links carry: covering, merging, mics, two-stage, flood, or all.")
    ] = "covering",
    kind: Annotated[str, typer.Option(metavar="A,B", help="Subscriptions: ranges, texts, regions, or all.")] = "ranges",
    peer: Annotated[
        str, typer.Option(metavar="A,B", help="Other servers, alone and as a pair: nats, mosquitto, all or none.")
    ] = "all",
    events: Annotated[int, typer.Option(min=100, help="Events published for the rate, at most.")] = 20_000,
    seconds: Annotated[float, typer.Option(min=0.1, help="About how long each part is measured.")] = 2.0,
    patience: Annotated[float, typer.Option(min=1, help="Seconds within which subscriptions must be active.")] = 120.0,
    json: Json = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the tables of docs/benchmarks.md.")] = False,
) -> None:
    """Measure brokers that are linked: real processes on loopback, durable, beside one broker in the same run.

    Subscriptions are at one end and events are published at the other. Shown are subscriptions per second until every
    broker knows them, events per second, processor time and memory of the broker at which events are published, of
    those that only forward (inner) and of those with the subscriptions (home), bytes on links, and how long a delivery
    over some links takes. A missing or surplus copy stops the run.
    """
    from tamis.cli.screen import errors
    from tamis.runtime.extra import demand_server

    demand_server("tamis bench network")
    from tamis_bench.network.measure import POLICIES, NetworkLoad, measure_network
    from tamis_bench.network.peers import PEERS, measure_peers
    from tamis_bench.network.topology import TOPOLOGIES
    from tamis_bench.workloads.network import KINDS

    names = _several("topology", topology, tuple(TOPOLOGIES))
    policies, kinds = _several("policy", policy, POLICIES), _several("kind", kind, tuple(KINDS))
    peers = [] if peer == "none" else _several("peer", peer, tuple(PEERS))
    load, say = NetworkLoad(events=events, seconds=seconds, patience=patience), errors().say
    rows = list(shown(measure_network(kinds, sizes_of(sizes), names, policies, load, say), json))
    rows += shown(measure_peers(peers, load, say), json)
    if not json:
        _print(rows, markdown)


def _several(what: str, names: str, choices: Sequence[str]) -> list[str]:
    return chosen(what, "" if names == "all" else names, choices)


def _print(rows: Sequence[Row], markdown: bool) -> None:
    from tamis.cli.screen import make_table, output
    from tamis_bench.network.tables import network_notes, network_sheets
    from tamis_bench.report import machine, markdown_lines

    console, notes = output(), network_notes(rows)
    if markdown:
        tables = ["\n".join(markdown_lines(sheet)) for sheet in network_sheets(rows)]
        print("\n\n".join([machine(), *tables, *("\n".join(f"- {note}" for note in part) for part in [notes] if part)]))
        return
    for sheet in network_sheets(rows):
        table = make_table(*sheet.names, right=sheet.names[1:])
        for line in sheet.lines:
            table.add_row(*line)
        console.print(table)
    for note in notes:
        console.say(note, "dim")
    console.say("(0.8x): eight tenths of the figure of one broker, or of one server, in this run.")
    console.say("What the numbers mean: docs/benchmarks.md")
