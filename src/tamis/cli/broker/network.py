"""``tamis network``: runs the same subscriptions and events through a network of brokers, and compares policies."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tamis.cli.failures import NO
from tamis.cli.options import Choice, Json, Least, Most, Split, examples

if TYPE_CHECKING:
    from rich.table import Table

    from tamis.demo.comparison import Trial
    from tamis.model.schema import Event, Schema
    from tamis.model.subscription import SubscriptionId
    from tamis.runtime.simulation.network import Network
    from tamis.runtime.simulation.peer_network import PeerNetwork
    from tamis.runtime.simulation.simulator import Faults
    from tamis.runtime.simulation.statistics import NetworkStatistics
    from tamis.runtime.simulation.topology import Topology

__all__ = ["EPILOG", "network", "read_files"]

EPILOG = examples(
    "tamis network",
    "tamis network --brokers 31 --policy all",
    "tamis network --work zipf --policy all --brokers 15",
    "tamis network --work regions --ranges 500 --policy covering --policy covering:finder=zcurve",
    "tamis network --shape line --brokers 7 --policy identity --policy covering",
    "tamis network --policy zcurve --policy zcurve:epsilon=0.3 --policy mics:axes=2,false_positives=0.01",
    "tamis network --subscriptions alerts.jsonl --events quakes.parquet --limit 500",
    "tamis network --policy covering --overlay drtree --overlay drtree-brokers",
    "tamis network --overlay drtree --split r* --least 2 --most 5",
    "tamis network --faults --seed 7 --json",
)

#: Brokers up to which the tree is drawn.
_DRAWN = 40


def network(
    brokers: Annotated[int, typer.Option(min=1, max=1000, help="How many brokers.")] = 31,
    shape: Annotated[str, typer.Option(help="The tree they form: balanced, line, star or random.")] = "balanced",
    policy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="What links announce, as zcurve or zcurve:epsilon=0.1,bits=8 (tamis tune --options lists them); "
            "several times for several, or all (the default).",
        ),
    ] = None,
    overlay: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Peers instead of a tree of brokers: drtree, or drtree-brokers."),
    ] = None,
    clients: Annotated[int | None, typer.Option(min=1, help="How many clients; two per broker by default.")] = None,
    subscriptions: Annotated[
        str | None, typer.Option(metavar="FILE", help="A file of subscriptions; the bundled 67 by default.")
    ] = None,
    events: Annotated[
        str | None, typer.Option(metavar="FILE", help="A file of events; the bundled week of earthquakes otherwise.")
    ] = None,
    work: Annotated[
        str,
        typer.Option(
            help="Without files: the bundled earthquakes (quakes), drawn ranges (uniform, zipf) or regions (regions)."
        ),
    ] = "quakes",
    ranges: Annotated[
        int, typer.Option(min=1, max=100_000, help="How many subscriptions are drawn for uniform, zipf and regions.")
    ] = 300,
    attributes: Annotated[
        int, typer.Option(min=1, max=8, help="How many attributes they have; every range is 4 of 256 values long.")
    ] = 2,
    limit: Annotated[int | None, typer.Option(min=1, help="Publish at most N events.")] = None,
    faults: Annotated[
        bool, typer.Option("--faults", help="Drop, double, delay and reorder messages; crash and restart brokers.")
    ] = False,
    draw: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the tree of the first --overlay, as .svg, .png or .pdf.")
    ] = None,
    seed: Annotated[
        int, typer.Option(help="The seed of all random choices: positions of clients, publishers and faults.")
    ] = 0,
    least: Least = 5,
    most: Most = 10,
    split: Split = "quadratic",
    choice: Choice = "",
    links: Annotated[
        bool, typer.Option("--links", help="Also show what each link carried, and which filters were covered by which.")
    ] = False,
    json: Json = False,
) -> None:
    """Compare link policies: the same subscriptions and events through a simulated network of brokers.

    A broker forwards an event only towards matching subscriptions, so brokers announce filters to their neighbours.
    A policy decides how much they announce: nothing at all (flood), every filter once (identity), only filters
    that no other covers (covering), or merged ones. All policies deliver the same; they differ in messages, bytes and
    table sizes. With --overlay there is no given tree: clients (or the brokers) are peers that arrange themselves by
    what they ask for. "lost" compares with a naive network in which every event meets every subscription: it must be 0.

    Exit code 0: nothing was lost and nothing came twice, 1: something was.
    """
    from tamis.cli.screen import output
    from tamis.overlay.seat import Shape
    from tamis.runtime.simulation.topology import Topology

    names = _policies(policy, overlay) + _overlays(overlay)
    _check_picture(draw, overlay)
    tree, nodes = Topology.of(shape, brokers, seed=seed), Shape(least, most, split, choice)
    trial = _drawn_or_bundled(work, tree, clients or 2 * brokers, ranges, attributes, seed)
    trial = replace(_with_files(trial, subscriptions, events, limit, _faults(faults)), shape=nodes)
    if json:
        rows = list(_as_json(trial, names, links=links))
    else:
        output().say(_conclusion(trial), "bold")
        if brokers <= _DRAWN:
            output().say(tree.draw(), "dim")
        rows = list(_live(trial, names, links=links))
        for line in _findings(rows):
            output().say(line)
    if draw is not None and overlay:
        _draw(trial, overlay[0], draw)
    if any(row.lost or row.duplicates for row in rows):
        raise typer.Exit(NO)


def _policies(chosen: list[str] | None, overlays: list[str] | None) -> list[str]:
    from tamis.routing.policies import POLICIES, find_policy

    names = chosen or ([] if overlays else ["all"])
    return list(POLICIES) if "all" in names else [find_policy(name).name for name in dict.fromkeys(names)]


def _overlays(chosen: list[str] | None) -> list[str]:
    from tamis.demo.comparison import OVERLAYS
    from tamis.errors import ModelError

    names = list(dict.fromkeys(chosen or []))
    for name in names:
        if name not in OVERLAYS:
            raise ModelError(f"unknown overlay {name!r}; choose from {', '.join(OVERLAYS)}")
    return names


def _check_picture(path: Path | None, overlays: list[str] | None) -> None:
    """Refuse a picture that cannot be drawn before anything is run."""
    from tamis.errors import ModelError
    from tamis.plots.canvas import check_kind

    if path is not None:
        check_kind(path)
        if not path.parent.is_dir():
            raise ModelError(f"{path}: there is no directory {path.parent}; make it first")
        if not overlays:
            raise ModelError("--draw shows a tree of peers: give --overlay drtree, too")


def _draw(trial: Trial, overlay: str, path: Path) -> None:
    """Draw the tree of an overlay after all events were published."""
    from tamis.overlay.space import Space
    from tamis.plots.overlay import draw_overlay, narrowest_axes

    seats = trial.peers(overlay).seats()
    x, y = narrowest_axes(seats)
    names = [axis.attribute for axis in Space(trial.schema).axes]
    draw_overlay({f"{overlay}: {len(seats)} seats": seats}, path, axes=(x, y), labels=(names[x], names[y]))


def _faults(wanted: bool) -> Faults:
    from tamis.runtime.simulation.simulator import NO_FAULTS, Faults

    return Faults(drop=0.02, duplicate=0.02, late=0.05, crash=0.0005, skew=2.0) if wanted else NO_FAULTS


def _drawn_or_bundled(work: str, tree: Topology, clients: int, ranges: int, attributes: int, seed: int) -> Trial:
    from tamis.demo.comparison import quake_trial
    from tamis.demo.range_questions import KINDS, range_trial
    from tamis.demo.region_questions import region_trial
    from tamis.errors import ModelError

    if work == "quakes":
        return quake_trial(tree, clients=clients, seed=seed)
    if work == "regions":
        return region_trial(tree, subscriptions=ranges, clients=clients, seed=seed)
    if work not in KINDS:
        raise ModelError(f"unknown work {work!r}; choose from quakes, {', '.join(KINDS)}, regions")
    return range_trial(tree, work, attributes=attributes, subscriptions=ranges, clients=clients, seed=seed)


def _with_files(
    trial: Trial, subscriptions: str | None, events: str | None, limit: int | None, faults: Faults
) -> Trial:
    from tamis.errors import TableError

    if (subscriptions is None) != (events is None):
        raise TableError("give both --subscriptions and --events, or neither for the bundled data")
    if subscriptions is not None and events is not None:
        trial = _from_files(trial, subscriptions, events)
    return replace(trial, events=trial.events[:limit], faults=faults)


def _from_files(trial: Trial, subscriptions: str, events: str) -> Trial:
    schema, questions, sample = read_files(subscriptions, events)
    return replace(trial, schema=schema, subscriptions=questions, events=sample)


def read_files(
    subscriptions: str, events: str, limit: int | None = None
) -> tuple[Schema, list[tuple[SubscriptionId, Any, str]], list[Event]]:
    """Return the schema of two files, the (id, filter, namespace) of the subscriptions, and the events."""
    from tamis.cli.filters.prepare import ParsedFilters, open_events
    from tamis.files import EventFile, SubscriptionFile
    from tamis.model.tables import EventTable

    file = SubscriptionFile(subscriptions)
    questions = ParsedFilters.of(file.name, file)
    prepared, batches = open_events(questions, EventFile(events), None, None)
    schema = prepared.engine.schema
    all_events = (event for batch in batches for event in EventTable.of(prepared.columns(batch), schema))
    filters = [(record.id, record.source, record.namespace) for record, _ in questions.records]
    return schema, filters, list(islice(all_events, limit))


def _conclusion(trial: Trial) -> str:
    n_brokers, n_subscriptions = len(trial.topology.brokers), len(trial.subscriptions)
    return (
        f"{n_brokers:,} brokers, {trial.clients:,} clients: "
        f"{n_subscriptions:,} subscriptions meet {len(trial.events):,} events"
    )


def _findings(rows: list[NetworkStatistics]) -> Iterator[str]:
    """Yield sentences about the table: the updates of each policy, and how many exact filters cells ruled out."""
    baseline = next((row for row in rows if row.policy == "every"), None)
    if baseline is not None and baseline.subscription_messages:
        fewest_last = sorted(rows, key=lambda row: -row.subscription_messages)
        parts = [
            f"{row.policy} {row.subscription_messages / baseline.subscription_messages:.0%}" for row in fewest_last
        ]
        yield f"Updates of each policy, compared with `every`: {', '.join(parts)}."
    for row in rows:
        if row.screened:
            yield (
                f"{row.policy}: the cells alone rejected {row.rejected:,} of {row.screened:,} events; "
                f"{row.filters_asked:,} filters were evaluated, {row.filters_spared:,} were ruled out by cells."
            )


def _as_json(trial: Trial, names: list[str], *, links: bool) -> Iterator[NetworkStatistics]:
    """Yield a row per policy; each is printed at once, so that an interrupted run has printed its results so far."""
    from tamis.cli.screen import write_json_lines

    for name in names:
        start = time.process_time()
        network = trial.network(name)
        cpu = {"cpu_seconds": round(time.process_time() - start, 3)}
        row = network.statistics()
        of_links = {"links": [link.as_row() for link in network.link_statistics()]} if links else {}
        write_json_lines([row.as_row() | cpu | of_links])
        yield row


def _live(trial: Trial, names: list[str], *, links: bool) -> Iterator[NetworkStatistics]:
    """Yield a row per policy while the table grows on the screen; the tables of links come after it."""
    from rich.live import Live

    from tamis.cli.screen import output

    rows: list[NetworkStatistics] = []
    of_links: list[Table] = []
    console = output()

    def run(name: str) -> None:
        network = trial.network(name)
        rows.append(network.statistics())
        of_links.extend([_links_table(network)] if links else [])

    if console.is_terminal:
        with Live(_table(rows, names[0]), console=console) as live:
            for i, name in enumerate(names):
                run(name)
                live.update(_table(rows, names[i + 1] if i + 1 < len(names) else None))
    else:
        for name in names:
            run(name)
        console.print(_table(rows))
    for table in of_links:
        console.print(table)
    yield from rows


def _links_table(network: Network | PeerNetwork) -> Table:
    """Return the table of the traffic in each direction of each link."""
    from tamis.cli.screen import make_table

    heads = ["link", "updates", "announced", "withheld", "entries", "events", "needless"]
    table = make_table(f"{heads[0]} ({network.statistics().policy})", *heads[1:], right=heads[1:])
    for link in network.link_statistics():
        counts = (
            link.updates,
            link.announced,
            len(link.suppressed),
            link.table_entries,
            link.events,
            link.false_positives,
        )
        table.add_row(f"{link.source} to {link.target}", *(f"{count:,}" for count in counts))
    return table


def _table(rows: list[NetworkStatistics], running: str | None = None) -> Table:
    from tamis.cli.screen import make_table

    heads = {
        "policy": "policy",
        "delivered": "delivered",
        "lost": "lost",
        "duplicates": "twice",
        "subscription_messages": "updates",
        "subscription_bytes": "kB",
        "event_messages": "events",
        "false_positives": "needless",
        "table_entries": "entries",
    }
    table = make_table(*heads.values(), right=list(heads.values())[1:])
    for row in rows:
        # Bytes as kilobytes, so that the numbers of a large network are not cut at 80 columns.
        values = row.as_row() | {"subscription_bytes": f"{row.subscription_bytes / 1000:,.1f}"}
        cells = (values[name] for name in heads)
        table.add_row(*(f"{value:,}" if isinstance(value, int) else value for value in cells))
    if running is not None:
        table.add_row(f"{running} ...")
    return table
