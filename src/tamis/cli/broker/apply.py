"""``tamis apply``: makes the subscriptions of a broker or a snapshot equal to files of rules."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tamis.cli.broker.at_broker import HERE, Broker, at_broker
from tamis.cli.failures import NO
from tamis.cli.options import Json, examples

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tamis.files.rule_sets import FileRule, Plan
    from tamis.runtime.client.rule_calls import RuleCalls

__all__ = ["EPILOG", "apply"]

EPILOG = examples(
    "tamis apply rules/ --url http://127.0.0.1:8080 --dry-run",
    "tamis apply rules/",
    "tamis apply rules.jsonl --set team-north --json",
    "tamis apply rules/ --snapshot snapshots/ --events yesterday.jsonl --dry-run",
)

#: Rules whose firings are counted, and lines that a terminal is shown.
_TRIED, _SHOWN = 200, 60

#: How often an old and a new filter fired; None: not counted.
Counts = tuple[int | None, int | None]


@at_broker
def apply(
    rules: Annotated[
        Path,
        typer.Argument(metavar="RULES", help="A folder or file: .jsonl, .json, .csv, .parquet, .cql2, .txt, Sigma."),
    ],
    broker: Broker = HERE,
    snapshot: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Bring this saved engine up to date instead of a broker.")
    ] = None,
    events: Annotated[
        str | None, typer.Option(metavar="FILE", help="With --snapshot: count how often rules fire for these events.")
    ] = None,
    set_name: Annotated[
        str, typer.Option("--set", help="The name of the set; subscriptions of other sets are not touched.")
    ] = "default",
    adopt: Annotated[
        bool, typer.Option("--adopt", help="Take over subscriptions that have the id of a rule and belong to no set.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Change nothing. Exit code 1 when something would change.")
    ] = False,
    json: Json = False,
) -> None:
    """Add, change and remove subscriptions so that exactly those in the files exist.

    Changes are shown with how often the old and the new filter fired for the last events of the broker. A changed
    filter is replaced in one step, without a gap.
    """
    from tamis.cli.filters.prepare import ParsedFilters
    from tamis.errors import ModelError
    from tamis.files import Record
    from tamis.files.rule_sets import read_rules

    if events is not None and snapshot is None:
        raise ModelError("--events: a broker counts by its own last events; use --events with --snapshot")
    if not set_name or not set_name.isprintable():
        raise ModelError("--set: a name of at least one printable character")
    file_rules = read_rules(rules, set_name)
    if snapshot is not None:
        file_rules = _without_deliveries(file_rules)
    ParsedFilters.of(
        "rules", (Record(rule.filter, rule.id, rule.namespace, None, 0, rule.place) for rule in file_rules)
    )
    target = _Broker(broker, set_name) if snapshot is None else _Snapshot(snapshot, events, set_name)
    plan = target.plan(file_rules, adopt=adopt)
    counts, examined = target.count(plan)
    if not dry_run and not plan.is_empty:
        target.apply(plan)
    _show(plan, counts, examined, json=json, is_done=not dry_run)
    if dry_run and not plan.is_empty:
        raise typer.Exit(NO)


class _Broker:
    """A running broker."""

    def __init__(self, broker: Broker, set_name: str) -> None:
        from tamis.runtime.client.rule_calls import RuleCalls

        self._rules: RuleCalls = RuleCalls(broker.calls(), set_name)
        self.apply = self._rules.apply

    def plan(self, file_rules: list[FileRule], *, adopt: bool) -> Plan:
        from tamis.files.rule_sets import compare_rules

        plan = compare_rules(file_rules, self._rules.read())
        foreign = self._rules.find_foreign(plan.added)
        return compare_rules(file_rules, [*self._rules.read(), *_adopted(foreign, adopt)]) if foreign else plan

    def count(self, plan: Plan) -> tuple[dict[Any, Counts], int | None]:
        counts, examined = dict[Any, Counts](), None
        for old, new in _pairs(plan)[:_TRIED]:
            figures: list[int | None] = []
            for rule in (old, new):
                firings = None if rule is None else self._rules.count_fired(rule)
                figures.append(None if firings is None else firings[0])
                examined = examined if firings is None else firings[1]
            counts[(new or old).key] = (figures[0], figures[1])  # type: ignore[union-attr]  # one of them is there
        return counts, examined


class _Snapshot:
    """A saved engine."""

    def __init__(self, directory: Path, events: str | None, set_name: str) -> None:
        from tamis.engine.engine import Engine

        self._directory, self._events, self._set_name = directory, events, set_name
        self._engine = Engine.load(directory) if directory.exists() else Engine()

    def plan(self, file_rules: list[FileRule], *, adopt: bool) -> Plan:
        from tamis.files.rule_sets import SET, FileRule, compare_rules

        present = [
            FileRule(
                subscription.id,
                subscription.namespace,
                subscription.text or "",
                subscription.expires,
                dict(subscription.metadata or {}),
            )
            for subscription in self._engine
        ]
        keys = {rule.key for rule in file_rules}
        foreign = [rule for rule in present if rule.metadata.get(SET) != self._set_name and rule.key in keys]
        own = [rule for rule in present if rule.metadata.get(SET) == self._set_name]
        return compare_rules(file_rules, [*own, *_adopted(foreign, adopt)])

    def count(self, plan: Plan) -> tuple[dict[Any, Counts], int | None]:
        pairs = _pairs(plan)
        if self._events is None or not pairs:
            return {}, None
        old_counts, examined = _fired([pair[0] for pair in pairs if pair[0] is not None], self._events)
        new_counts, new_examined = _fired([pair[1] for pair in pairs if pair[1] is not None], self._events)
        keys = [(old_rule or new_rule).key for old_rule, new_rule in pairs]  # type: ignore[union-attr]
        return {key: (old_counts.get(key), new_counts.get(key)) for key in keys}, max(examined, new_examined)

    def apply(self, plan: Plan) -> None:
        for rule in (*plan.removed, *(old_rule for old_rule, _ in plan.changed)):
            self._engine.unsubscribe(rule.id, namespace=rule.namespace)
        for rule in (*plan.added, *(new_rule for _, new_rule in plan.changed)):
            self._engine.subscribe(
                _source(rule.filter),
                id=rule.id,
                namespace=rule.namespace,
                expires=rule.expires,
                metadata=rule.metadata,
            )
        self._engine.save(self._directory)


def _without_deliveries(rules: list[FileRule]) -> list[FileRule]:
    """Return rules without what they say of deliveries, which a snapshot does not have; a line says so."""
    from dataclasses import replace

    from tamis.cli.screen import errors
    from tamis.files.rule_sets import DELIVERY_OPTIONS, FileRule

    plain = [replace(rule, **{name: getattr(FileRule, name) for name in DELIVERY_OPTIONS}) for rule in rules]
    if count := sum(rule != bare for rule, bare in zip(rules, plain, strict=True)):
        names = ", ".join(DELIVERY_OPTIONS)
        errors().say(
            f"{count:,} rules say how they are delivered ({names}); a snapshot has no deliveries and ignores it"
        )
    return plain


def _source(text: str) -> Any:
    import msgspec

    return msgspec.json.decode(text) if text.lstrip().startswith("{") else text


def _fired(rules: list[FileRule], events: str) -> tuple[dict[Any, int], int]:
    """Return how often rules fire for the events of a file, and how many events there are."""
    from collections import Counter

    from tamis.cli.filters.prepare import ParsedFilters, open_events
    from tamis.files import EventFile, Record

    fired, examined = Counter[Any]({rule.key: 0 for rule in rules}), 0
    records = [Record(_source(rule.filter), rule.id, rule.namespace, None, 0, rule.place) for rule in rules]
    if not records:
        return fired, 0
    prepared, batches = open_events(ParsedFilters.of("rules", records), EventFile(events), None, None)
    for batch in batches:
        examined += len(batch)
        for namespace in {rule.namespace for rule in rules}:
            matches, _ = prepared.match(batch, namespace=namespace)
            fired.update((namespace, id) for id in matches.ids.of(matches.rows))
    return fired, examined


def _adopted(foreign: list[FileRule], adopt: bool) -> list[FileRule]:
    """Return subscriptions outside the set that have the ids of rules; an error unless they are to be taken over."""
    from tamis.errors import ModelError
    from tamis.files.rule_sets import SET

    for rule in foreign:
        owning_set = rule.metadata.get(SET)
        if owning_set is not None:
            raise ModelError(
                f"subscription {rule.id!r} belongs to the set {owning_set!r}: rename the rule, or use that --set"
            )
        if not adopt:
            raise ModelError(
                f"subscription {rule.id!r} exists and belongs to no set: rename the rule, or take it over with --adopt"
            )
    return foreign


def _pairs(plan: Plan) -> list[tuple[FileRule | None, FileRule | None]]:
    """Return the old and the new rule of every change; None for one that does not exist."""
    return [
        *((None, rule) for rule in plan.added),
        *plan.changed,
        *((rule, None) for rule in plan.removed),
    ]


def _show(plan: Plan, counts: dict[Any, Counts], examined: int | None, *, json: bool, is_done: bool) -> None:
    from tamis.cli.screen import make_table, output, plain, write_json

    rows = list(_rows(plan, counts))
    totals = {"added": len(plan.added), "changed": len(plan.changed), "removed": len(plan.removed), "same": plan.same}
    if json:
        write_json({**totals, "examined": examined, "applied": is_done, "rules": rows})
        return
    if rows:
        table = make_table("", "id", "namespace", "filter", "fired", right=("fired",))
        for row in rows[:_SHOWN]:
            filters = dict.fromkeys(filter(None, (row["before"], row["filter"])))
            options = [f"{name}: {_shown(old)} -> {_shown(new)}" for name, (old, new) in row["options"].items()]
            figures = [f"{figure:,}" for figure in (row["fired_before"], row["fired"]) if figure is not None]
            cells = (
                row["what"],
                str(row["id"]),
                row["namespace"],
                "; ".join((" -> ".join(filters), *options)),
                " -> ".join(figures),
            )
            table.add_row(*map(plain, cells))
        output().print(table)
        if len(rows) > _SHOWN:
            output().say(f"the first {_SHOWN} of {len(rows):,} changes are shown; for all of them: --json")
    verb = "" if is_done else "would be "
    output().say(
        f"{verb}added {totals['added']:,}, changed {totals['changed']:,}, removed {totals['removed']:,}; "
        f"as the files say already: {plan.same:,}"
    )
    if examined is not None:
        output().say(f"fired: for the last {examined:,} events")


def _shown(value: Any) -> str:
    import msgspec

    return msgspec.json.encode(value).decode()


def _rows(plan: Plan, counts: dict[Any, Counts]) -> Iterable[dict[str, Any]]:
    from tamis.files.rule_sets import changed_options

    words = {(False, True): "added", (True, True): "changed", (True, False): "removed"}
    for old_rule, new_rule in _pairs(plan):
        rule = new_rule or old_rule
        assert rule is not None
        fired_before, fired = counts.get(rule.key, (None, None))
        yield {
            "what": words[old_rule is not None, new_rule is not None],
            "id": rule.id,
            "namespace": rule.namespace,
            "before": None if old_rule is None else old_rule.filter,
            "filter": None if new_rule is None else new_rule.filter,
            "options": {} if old_rule is None or new_rule is None else changed_options(old_rule, new_rule),
            "fired_before": fired_before,
            "fired": fired,
        }
