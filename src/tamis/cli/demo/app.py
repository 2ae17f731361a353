"""``tamis demo``: matches real earthquakes against subscriptions and draws a map; needs no extra packages."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tamis.cli.demo import console as demo_console
from tamis.cli.demo import storms as demo_storms
from tamis.cli.options import Json, examples

if TYPE_CHECKING:
    from tamis.algebra.explain import Explanation
    from tamis.cli.screen import Screen
    from tamis.engine import Engine, Matches
    from tamis.model.subscription import SubscriptionId
    from tamis.reduction import Reduction

__all__ = ["EPILOG", "app", "demo"]

EPILOG = examples(
    "tamis demo",
    "tamis demo --json",
    "tamis demo --map quakes.html --open",
    "tamis demo --save quakes",
    "tamis demo console",
    "tamis demo storms",
    "tamis demo storms --spark",
)

app = typer.Typer(
    help="Show what tamis does, on a week of real earthquakes and 67 subscriptions.",
    epilog=EPILOG,
    rich_markup_mode="rich",
    invoke_without_command=True,
)
app.command("console", epilog=demo_console.EPILOG)(demo_console.console)
app.command("storms", epilog=demo_storms.EPILOG)(demo_storms.storms)

#: The default path of the map.
_MAP = Path("tamis-demo.html")

#: The subscription that is explained, on an event it matches and on one it does not.
_EXPLAINED = "strong-shallow"

_NEXT = (
    "tamis demo --save quakes          # the files that the next three use",
    'tamis try "mag >= 5" quakes/earthquakes.parquet',
    "tamis match quakes/subscriptions.jsonl quakes/earthquakes.parquet",
    "tamis reduce quakes/subscriptions.jsonl",
    'tamis explain "mag >= 5" \'{"mag": 4.2}\'',
    'tamis covers "mag >= 4" "mag >= 5 AND depth < 70"',
)


@app.callback()
def demo(
    context: typer.Context,
    limit: Annotated[int, typer.Option(min=1, max=100, help="How many of the newest events to show.")] = 8,
    save: Annotated[
        Path | None, typer.Option(metavar="DIRECTORY", help="Write the events and subscriptions used here as files.")
    ] = None,
    map: Annotated[
        Path | None, typer.Option(metavar="FILE", help=f"Where the HTML map goes: {_MAP}, with --json none.")
    ] = None,
    open: Annotated[bool, typer.Option("--open", help="Show the map in the browser.")] = False,
    json: Json = False,
) -> None:
    """Show what tamis does, on a week of real earthquakes and 67 subscriptions."""
    if context.invoked_subcommand is not None:
        return
    from tamis.cli.screen import output, write_json

    if save is not None:
        _save(save)
        return
    if map is not None:
        from tamis.cli.demo.map import check_place

        check_place(map)
    console = None if json else output()
    if console is not None:
        console.say("tamis demo: which earthquakes match which subscriptions?", "bold")
        console.say("Matching a week of real earthquakes against 67 subscriptions ...", "dim")
    show = _Show(limit)
    if console is None:
        written = show.draw(map or _MAP) if map or open else None
        write_json({**show.as_json(), "map": None if written is None else str(written)})
    else:
        show.print(console)
        written = _name_map(console, show, map)
    if open and written is not None:
        _open(written)


def _name_map(console: Screen, show: _Show, map: Path | None) -> Path | None:
    """Draw the map and print its path; if it cannot be written, that is an error only with ``--map``."""
    from tamis.cli.screen import errors
    from tamis.errors import ModelError

    try:
        written = show.draw(map or _MAP)
    except ModelError as error:
        if map is not None:
            raise
        errors().say(f"no map: {error}", "yellow")
        return None
    console.say(f"\nThe map: {written} (one file: open it in a browser, or use --open)", "bold")
    return written


def _open(path: Path) -> None:
    from tamis.cli.demo.map import open_page
    from tamis.cli.screen import errors

    if not open_page(path):
        errors().say(f"there is no browser to show it: open {path} yourself", "yellow")


def _save(directory: Path) -> None:
    from importlib.resources import files

    from tamis.cli.screen import errors

    directory.mkdir(parents=True, exist_ok=True)
    names = {"earthquakes.parquet": "earthquakes.parquet", "quake_subscriptions.jsonl": "subscriptions.jsonl"}
    for source, target in names.items():
        (directory / target).write_bytes((files("tamis") / "data" / source).read_bytes())
    errors().say(f"wrote {' and '.join(names.values())} to {directory}")


class _Show:
    """The demonstration: computed once, then printed or written as JSON."""

    def __init__(self, limit: int) -> None:
        from tamis.demo import datasets
        from tamis.engine import Engine
        from tamis.model.schema import Schema
        from tamis.reduction import reduce

        self.events = events = datasets.earthquakes()
        self.questions: dict[SubscriptionId, str] = dict(datasets.quake_subscriptions())
        self.n_events = events.num_rows
        self.engine: Engine = Engine(Schema.from_arrow(events))
        for id, text in self.questions.items():
            self.engine.subscribe(text, id=id)
        self.engine.match_table(events.slice(0, 1))  # the first call may compile
        start = time.perf_counter()
        self.matches: Matches = self.engine.match_table(events)
        self.seconds = time.perf_counter() - start
        self.newest = self._newest(events, limit)
        self.explained = self._explained(events)
        self.reduction: Reduction = reduce({**self.questions}, self.engine.schema, merge=False)

    def _newest(self, events: Any, limit: int) -> list[dict[str, Any]]:
        """Return the newest events of magnitude 4 or more that match a subscription."""
        newest: list[dict[str, Any]] = []
        for row in reversed(range(self.n_events)):
            ids = self.matches.of(row)
            if ids and (events["mag"][row].as_py() or 0) >= 4:
                [event] = events.slice(row, 1).select(["at", "mag", "place"]).to_pylist()
                newest.append({**event, "subscriptions": ids})
            if len(newest) == limit:
                break
        return newest

    @property
    def top(self) -> list[tuple[SubscriptionId, int]]:
        """The subscriptions with most matches."""
        from collections import Counter

        counts = Counter(self.matches.subscription)
        return sorted(counts.items(), key=lambda pair: (-pair[1], str(pair[0])))[:6]

    def _explained(self, events: Any) -> list[tuple[str, Explanation]]:
        """Return a match and a near miss of one subscription: strong, but not shallow."""
        explained = {}
        for row in reversed(range(self.n_events)):
            matched = _EXPLAINED in self.matches.of(row)
            near = matched or "strong" in self.matches.of(row)
            if near and matched not in explained:
                [event] = events.slice(row, 1).to_pylist()
                explained[matched] = (event["place"], self.engine.explain(event, _EXPLAINED))
        return [explained[True], explained[False]]

    def draw(self, path: Path) -> Path:
        """Write the map; return where it is."""
        from tamis.cli.demo.map import write_map

        write_map(path, self.events, self.engine, self.matches, self.questions)
        return path

    def as_json(self) -> dict[str, Any]:
        """Return everything that is shown, as plain values."""
        top = [{"id": id, "matches": n, "filter": self.questions[id]} for id, n in self.top]
        return {
            "events": self.n_events,
            "subscriptions": len(self.questions),
            "matches": len(self.matches),
            "seconds": round(self.seconds, 3),
            "newest": self.newest,
            "top": top,
            "explanations": [{"place": place, **explanation.as_json()} for place, explanation in self.explained],
            "reduction": self.reduction.as_json(),
        }

    def print(self, console: Screen) -> None:
        """Print the demonstration, section by section."""
        per = self.seconds / self.n_events * 1e6
        console.say(f"{self.n_events:,} events x {len(self.questions)} subscriptions: {len(self.matches):,} matches")
        console.say(f"in {self.seconds:.2f} seconds, {per:,.0f} microseconds per event.\n")
        self._print_newest(console)
        self._print_top(console)
        self._print_explanations(console)
        self._print_reduction(console)
        console.say("\nGo on from here", "bold")
        for command in _NEXT:
            console.say(f"  {command}")
        console.say("Events: U.S. Geological Survey, February 2018. More: docs/cli.md, tamis --help", "dim")

    def _print_newest(self, console: Screen) -> None:
        from tamis.cli.screen import make_table, shown

        console.say("The newest of magnitude 4 and more", "bold")
        table = make_table("time (UTC)", "mag", "place", "asked for by", right=("mag",))
        for event in self.newest:
            when = event["at"].strftime("%d %b %H:%M")
            table.add_row(when, f"{event['mag']:.1f}", shown(event["place"], 28), _few(event["subscriptions"], 32))
        console.print(table)

    def _print_top(self, console: Screen) -> None:
        from tamis.cli.screen import make_table, shown

        console.say("\nSubscriptions with most matches", "bold")
        table = make_table("subscription", "matches", "filter", right=("matches",))
        for id, count in self.top:
            table.add_row(shown(id), f"{count:,}", shown(self.questions[id], 39))
        console.print(table)

    def _print_explanations(self, console: Screen) -> None:
        from tamis.cli.filters.explain import show_explanation

        console.say(f"\nWhy? Subscription {_EXPLAINED!r}, condition by condition", "bold")
        for place, explanation in self.explained:
            verdict = "match" if explanation.matched else "no match"
            console.say(show_explanation(explanation, f"\n  {place}: {verdict}"))

    def _print_reduction(self, console: Screen) -> None:
        reduction = self.reduction
        n_redundant = reduction.before - reduction.after
        console.say(
            f"\nRedundant: {n_redundant} of {reduction.before} subscriptions add nothing to what a link carries", "bold"
        )
        for kind, pairs, word in (("covered", reduction.covered, "by"), ("equivalent", reduction.equivalent, "to")):
            for id, other in list(pairs.items())[-1:]:
                console.say(f"  {len(pairs):>3} {kind}, as {id} {word} {other}")
        console.say(f"  {len(reduction.subsumed):>3} subsumed by several others together")
        shortest = min((self.questions[id] for id in reduction.impossible), key=len)
        console.say(f"  {len(reduction.impossible):>3} can never match, as {shortest}")


def _few(ids: list[Any], width: int) -> str:
    """Return as many ids as fit, and how many more there are."""
    for n in range(len(ids), 0, -1):
        suffix = f" +{len(ids) - n}" if n < len(ids) else ""
        text = ", ".join(map(str, ids[:n])) + suffix
        if len(text) <= width:
            return text
    return f"{ids[0]} +{len(ids) - 1}"
