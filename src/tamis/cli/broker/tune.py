"""``tamis tune``: measures which link policy, with which options, suits given subscriptions and events best."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from tamis.cli.options import Events, Json, Subscriptions, examples

if TYPE_CHECKING:
    from tamis.demo.tuning import LinkCost, LinkTrial

__all__ = ["EPILOG", "tune"]

EPILOG = examples(
    "tamis tune alerts.jsonl quakes.parquet",
    "tamis tune alerts.jsonl quakes.parquet --policy covering --policy zcurve:epsilon=0.2,bits=8",
    "tamis tune alerts.jsonl quakes.parquet --policy mics:axes=2 --cells cells.json",
    "tamis tune --options",
)


def _print_options(wanted: bool) -> None:
    if wanted:
        from tamis.cli.screen import output
        from tamis.routing.policies import OPTIONS, POLICIES, options_of

        for option in OPTIONS.values():
            policies = ", ".join(name for name in POLICIES if option.name in options_of(name))
            output().say(f"{option.name} = {option.written_default}", "bold")
            output().say(f"  {option.help}")
            output().say(f"  {option.allowed}; for {policies}")
        raise typer.Exit


def tune(
    subscriptions: Subscriptions,
    events: Events,
    policy: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A policy to try, as name:option=value,...; may be repeated."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Use at most N events.")] = 5_000,
    cells: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the cells of the first --policy, a mics one, for broker.toml."),
    ] = None,
    options: Annotated[
        bool,
        typer.Option("--options", callback=_print_options, is_eager=True, help="List the options of all policies."),
    ] = False,
    json: Json = False,
) -> None:
    """Find the link policy and options that cost least for these subscriptions and a sample of events.

    Each policy runs on one link between two brokers. The figures are the entries of the neighbour's table, the bytes of
    updates, the events that cross without need, and CPU time per subscription and per event. The advice is the least
    traffic: the bytes of updates and of needless events together, in the proportion of the two files.
    """
    from tamis.cli.screen import output, write_json

    trial = _read(subscriptions, events, limit)
    names = policy or trial.candidates()
    if cells is not None:
        _write_cells(trial, names[0], cells)
    with _progress(len(names), quiet=json) as done:
        costs = [_measured(trial, name, done) for name in names]
    if json:
        write_json({"costs": [cost.as_row() for cost in costs], "advice": _advice(costs)})
        return
    output().say(f"{len(trial.subscriptions):,} subscriptions, {len(trial.events):,} events, one link", "bold")
    _print(costs)
    for line in _words(costs):
        output().say(line)


def _read(subscriptions: str, events: str, limit: int) -> LinkTrial:
    from tamis.cli.broker.network import read_files
    from tamis.demo.tuning import LinkTrial
    from tamis.errors import TableError
    from tamis.model.subscription import Subscription
    from tamis.node.content import Content

    schema, questions, sample = read_files(subscriptions, events, limit)
    if not questions:
        raise TableError(f"{subscriptions}: there are no subscriptions to tune for")
    content = Content(schema)
    compiled = [Subscription(str(id), content.compile(source)) for id, source, _ in questions]
    return LinkTrial(schema, compiled, sample, _mean_bytes(events))


def _mean_bytes(events: str) -> float | None:
    """Return the bytes of an event with all its attributes, as JSON: the mean of the first thousand of a file."""
    from tamis.cli.screen import jsonable
    from tamis.files import EventFile

    if events == "-":  # it can be read once only
        return None
    first = next(EventFile(events).batches(None, {}, whole=True), None)
    if first is None:
        return None
    sizes = [len(msgspec.json.encode(jsonable(first.event(i)))) for i in range(min(len(first), 1_000))]
    return sum(sizes) / len(sizes)


def _write_cells(trial: LinkTrial, name: str, path: Path) -> None:
    """Write the content spaces that a policy of cells would have, as `LinkConfig` reads them."""
    from tamis.errors import ModelError

    fitted = trial.fitted(name)
    if fitted.cells is None:
        raise ModelError(f"--cells needs a policy with cells, such as mics, not {name!r}")
    path.write_bytes(msgspec.json.encode([msgspec.Raw(space.encode()) for space in fitted.cells.spaces]) + b"\n")


@contextlib.contextmanager
def _progress(total: int, *, quiet: bool) -> Iterator[Callable[[str], None]]:
    """Yield a function that shows the current policy, on a terminal."""
    from rich.progress import Progress

    from tamis.cli.screen import errors

    with Progress(console=errors(), transient=True, disable=quiet or not errors().is_terminal) as progress:
        task = progress.add_task("", total=total)

        def show(name: str) -> None:
            progress.update(task, description=name, advance=1)

        yield show


def _measured(trial: LinkTrial, name: str, show: Callable[[str], None]) -> LinkCost:
    cost = trial.measure(name)
    show(name)
    return cost


def _advice(costs: Sequence[LinkCost]) -> dict[str, str]:
    """Return the best policy by each figure; among equals the first."""
    return {
        "least_traffic": min(costs, key=lambda cost: cost.traffic_bytes).policy,
        "smallest_table": min(costs, key=lambda cost: (cost.entries, cost.traffic_bytes)).policy,
        "least_traffic_without_needless_events": min(
            costs, key=lambda cost: (cost.false_positives > 0, cost.traffic_bytes)
        ).policy,
    }


def _words(costs: Sequence[LinkCost]) -> Iterator[str]:
    advice = _advice(costs)
    by_name = {cost.policy: cost for cost in costs}
    best = by_name[advice["least_traffic"]]
    yield (
        f"Least traffic: {best.policy}: {best.traffic_bytes / 1000:,.1f} kB, {best.entries:,} entries, "
        f"{best.false_positives:,} needless events."
    )
    exact = by_name[advice["least_traffic_without_needless_events"]]
    if exact is not best and not exact.false_positives:
        traffic = f"{exact.traffic_bytes / 1000:,.1f} kB, {exact.entries:,} entries"
        yield f"Without needless events: {exact.policy}: {traffic}."


def _print(costs: Sequence[LinkCost]) -> None:
    from tamis.cli.screen import make_table, output

    # 80 columns have room for the longest candidate and these; --json has the rest.
    heads = ["entries", "updates", "needless", "total", "us/event"]
    table = make_table("policy", *heads, right=heads)
    for cost in costs:
        table.add_row(
            cost.policy,
            f"{cost.entries:,}",
            f"{cost.update_bytes / 1000:,.1f} kB",
            f"{cost.false_positives:,}",
            f"{cost.traffic_bytes / 1000:,.1f} kB",
            f"{cost.event_us:,.1f}",
        )
    output().print(table)
