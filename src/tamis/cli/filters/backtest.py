"""``tamis backtest``: runs rules on past events and reports how often each fires."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tamis.cli.failures import NO
from tamis.cli.options import Events, Json, OnBad, OnBadRow, SchemaPath, Zone, examples, read_schema

if TYPE_CHECKING:
    from tamis.cli.filters.prepare import ParsedFilters, Prepared
    from tamis.files import Batch, EventFile
    from tamis.reduction.backtest import Backtest, Tally

__all__ = ["EPILOG", "backtest"]

EPILOG = examples(
    "tamis backtest rules.jsonl events.parquet --time at",
    "tamis backtest rules/ events.jsonl --fail-on always --junit report.xml",
    "tamis backtest rules.jsonl events.jsonl --against old-rules.jsonl --json",
)

#: Rules that are shown on a terminal.
_SHOWN = 40
_YAML = (".yml", ".yaml")


class Verdict(StrEnum):
    """The verdicts on a rule."""

    NEVER = "never"
    ALWAYS = "always"
    REDUNDANT = "redundant"
    UNDECIDED = "undecided"
    CHANGED = "changed"


def backtest(
    rules: Annotated[
        str, typer.Argument(metavar="RULES", help="A file of subscriptions, or Sigma rules (.yml or a folder).")
    ],
    events: Events,
    against: Annotated[
        str | None, typer.Option(metavar="OLD_RULES", help="Compare with an older version of the rules.")
    ] = None,
    time: Annotated[str | None, typer.Option(metavar="COLUMN", help="Count firings per day of this attribute.")] = None,
    fail_on: Annotated[
        list[Verdict] | None, typer.Option(help="Exit with code 1 when a rule gets this verdict; may be repeated.")
    ] = None,
    junit: Annotated[Path | None, typer.Option(metavar="FILE", help="Write JUnit XML, a test case per rule.")] = None,
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw firings per day and rule into an .svg, .png or .pdf file.")
    ] = None,
    redundancy: Annotated[bool, typer.Option(help="List the rules that other rules make unnecessary.")] = True,
    namespace: Annotated[str, typer.Option(metavar="NAME", help="Run the rules of this namespace.")] = "default",
    on_bad: OnBadRow = OnBad.RAISE,
    schema: SchemaPath = None,
    zone: Zone = None,
    json: Json = False,
) -> None:
    """Run rules on past events: matches per day, rules that never or always fire or are redundant, and changes.

    Exit code 0: done, 1: a rule is as --fail-on says.
    """
    from tamis.cli.screen import write_json
    from tamis.files import EventFile
    from tamis.plots.canvas import check_kind

    if picture is not None:
        check_kind(picture)
    kinds = [kind.value for kind in fail_on or ()]
    _check(kinds, against, redundancy, junit, picture)
    runs = [_read_rules(path) for path in (rules, against) if path is not None]
    skip = on_bad is OnBad.SKIP
    source = _Source(EventFile(events, skip=skip), read_schema(schema, zone), zone, skip)
    report = _run(runs, source, time, namespace, redundancy)
    _write(report, kinds, junit, picture)
    if json:
        write_json(report.as_json())
    else:
        _show(report)
    if any(kind in report.verdicts(rule) for rule in report.rules for kind in kinds):
        raise typer.Exit(NO)


def _check(kinds: Sequence[str], against: str | None, redundancy: bool, *files: Path | None) -> None:
    """Refuse options that contradict each other, and files whose folder is missing, before hours of work."""
    if Verdict.CHANGED in kinds and against is None:
        raise typer.BadParameter("--fail-on changed needs the older rules: --against OLD_RULES")
    of_proofs = [kind for kind in kinds if kind in (Verdict.REDUNDANT, Verdict.UNDECIDED)]
    if of_proofs and not redundancy:
        raise typer.BadParameter(f"--fail-on {of_proofs[0]} needs the proofs that --no-redundancy leaves out")
    for file in files:
        if file is not None and not file.parent.is_dir():
            raise typer.BadParameter(f"{file}: there is no folder {file.parent}")


class _Source:
    """The file of events and how it is read."""

    def __init__(self, file: EventFile, schema: Any, zone: str | None, skip: bool) -> None:
        self.file, self.schema, self.zone, self.skip = file, schema, zone, skip


def _read_rules(path: str) -> ParsedFilters:
    """Read subscriptions, or Sigma rules; a Sigma rule that has no equivalent is named and left out."""
    from tamis.cli.filters.prepare import ParsedFilters
    from tamis.cli.screen import errors
    from tamis.errors import TableError
    from tamis.files import Record, SubscriptionFile
    from tamis.files.sigma_rules import read_sigma_rules

    if path.endswith("/") and not Path(path).exists():
        raise TableError(f"{path}: there is no such folder")
    if Path(path).is_dir() or path.lower().endswith(_YAML):
        sigma = read_sigma_rules([Path(path)])
        for rule in sigma.refused:
            errors().say(f"{rule.path}, rule {rule.name!r}: {rule.reason}", "yellow")
        titles = [f"rule {record.metadata.get('title', record.id)!r}" for record in sigma.records]
        records = [
            Record(record.filter, record.id, record.namespace, None, row, titles[row], record.metadata)
            for row, record in enumerate(sigma.records)
            if not isinstance(record.filter, bool)
        ]
        questions = ParsedFilters.of(path, records)
        if not records:
            raise TableError(f"{path}: none of its rules can be run; the reasons are above")
    else:
        file = SubscriptionFile(path)
        questions = ParsedFilters.of(file.name, file)
    if not questions.records:
        raise TableError(f"{path}: there is no rule in it")
    return questions


def _run(
    runs: Sequence[ParsedFilters], source: _Source, time: str | None, namespace: str, redundancy: bool
) -> Backtest:
    """Match all events with the rules and, if there are two versions, with both."""
    from tamis.cli.filters.prepare import open_events, prepare
    from tamis.cli.filters.reading import Skipped, Stopwatch, watched
    from tamis.errors import TableError
    from tamis.reduction.backtest import Backtest, Difference, Tally

    tally, skipped, watch = Tally(), Skipped(), Stopwatch()
    extra = {name for questions in runs[1:] for name in questions.kinds} | ({time} if time is not None else set())
    new_rules, batches = open_events(runs[0], source.file, source.schema, source.zone, skip=source.skip, extra=extra)
    rules, old_rules = _Rules(runs[0], namespace), None
    if not rules.titles:
        namespaces = ", ".join(sorted({record.namespace for record, _ in runs[0].records}))
        raise TableError(f"no rule is in the namespace {namespace!r}; there are rules in: {namespaces}")
    difference = Difference() if len(runs) > 1 else None
    for batch in watched(source.file, batches, watch, skipped):
        ids, rows, bad = rules.fired(new_rules, batch, source.skip)
        skipped.add(source.file.name, bad)
        tally.events += len(batch) - len(bad)
        tally.add(ids, None if time is None else _days(batch, rows, time, source.zone))
        if difference is not None:
            old_rules = old_rules or prepare(runs[1], batch, source.file.name, source.schema, source.zone)
            old_ids, old_rows, _ = _Rules(runs[1], namespace).fired(old_rules, batch, source.skip)
            difference.add(set(zip(old_rows, old_ids, strict=True)), set(zip(rows, ids, strict=True)))
    skipped.tell()
    _tell_undated(tally, time)
    if difference is not None:
        old_titles = set(_Rules(runs[1], namespace).titles)
        difference.added = tuple(rule for rule in rules.titles if rule not in old_titles)
        difference.removed = tuple(sorted(old_titles - set(rules.titles), key=str))
    reduction = _reduction(new_rules, namespace) if redundancy else None
    return Backtest.of(rules.titles, tally, reduction, difference, rules.of_parts)


class _Rules:
    """The rules of one namespace with their titles; a long rule is several subscriptions, its parts."""

    def __init__(self, questions: ParsedFilters, namespace: str) -> None:
        from tamis.reduction.backtest import rule_of

        self._namespace = namespace
        #: The rule of each part.
        self.of_parts: dict[Any, Any] = {}
        self.titles: dict[Any, str] = {}
        for record, _ in questions.records:
            if record.namespace != namespace:
                continue
            rule, title = rule_of(record.id, record.metadata), record.metadata.get("title", "")
            if rule != record.id:
                self.of_parts[record.id] = rule
                title = title.rpartition(" (part ")[0]
            self.titles.setdefault(rule, title)

    def fired(self, prepared: Prepared, batch: Batch, skip: bool) -> tuple[list[Any], list[int], list[Any]]:
        """Return the rules that fired with the row of each, once per event and rule, and the bad rows."""
        matches, bad = prepared.match(batch, namespace=self._namespace, skip=skip)
        ids, rows = matches.ids.of(matches.rows), matches.event.tolist()
        if not self.of_parts:
            return ids, rows, bad
        pairs = dict.fromkeys((row, self.of_parts.get(id, id)) for row, id in zip(rows, ids, strict=True))
        return [rule for _, rule in pairs], [row for row, _ in pairs], bad


def _days(batch: Batch, rows: Sequence[int], time: str, zone: str | None) -> list[str | None]:
    """Return the day of each row; None if its time is missing or cannot be read."""
    import numpy as np

    from tamis.errors import TableError
    from tamis.model.columns import column_from
    from tamis.model.types import Timestamp

    if time not in batch.columns:
        raise TableError(f"no event has {time!r}; choose another --time")
    column = column_from(time, Timestamp(zone or "UTC"), batch.columns[time])
    moments = np.array([column.value(row) or 0 for row in range(len(batch))], "datetime64[us]").astype("datetime64[D]")
    days = moments.astype(str).tolist()
    return [days[row] if column.present[row] else None for row in rows]


def _tell_undated(tally: Tally, time: str | None) -> None:
    """Warn of firings without a day: the time of their events is missing, or cannot be read."""
    from tamis.cli.screen import errors

    if time is None:
        return
    undated = tally.fired.total() - sum(days.total() for days in tally.by_day.values())
    if undated:
        total = tally.fired.total()
        text = f"{undated:,} of {total:,} firings have no day: {time!r} is missing there, or no time such as"
        errors().say(f"{text} 2026-01-31T12:00:00Z", "yellow")


def _reduction(prepared: Prepared, namespace: str) -> Any:
    from tamis.reduction import reduce

    subscriptions = [subscription for subscription in prepared.engine if subscription.namespace == namespace]
    return reduce(subscriptions, prepared.engine.schema)


def _write(report: Backtest, kinds: Sequence[str], junit: Path | None, picture: Path | None) -> None:
    from tamis.cli.screen import errors
    from tamis.reduction.backtest import junit_xml

    if junit is not None:
        junit.write_bytes(junit_xml(report, kinds))
        errors().say(f"wrote {junit}", "bold")
    if picture is not None:
        from tamis.plots.backtest import draw_backtest
        from tamis.plots.canvas import write_figure

        write_figure(draw_backtest(report), picture)
        errors().say(f"wrote {picture}", "bold")


def _redundancy(report: Backtest) -> str:
    """Return the end of a line: how many rules are redundant, and how many are undecided."""
    if report.undecided is None:
        return ""
    undecided = f", not decided: {len(report.undecided):,}" if report.undecided else ""
    return f", redundant: {len(report.redundant):,}{undecided}"


def _show(report: Backtest) -> None:
    from tamis.cli.screen import make_table, output, shown

    table = make_table("rule", "fired", "days", "remarks", right=("fired", "days"))
    for column in (table.columns[0], table.columns[-1]):  # long ones are wrapped, so that the numbers stay whole
        column.no_wrap = False
    ordered = sorted(report.rules, key=lambda rule: -report.tally.fired[rule])
    for rule in ordered[:_SHOWN]:
        days = len(report.tally.by_day.get(rule, {}))
        remarks = "; ".join(f"{kind}: {text}" for kind, text in report.verdicts(rule).items())
        name = shown(report.titles[rule] or rule, 30)
        table.add_row(name, f"{report.tally.fired[rule]:,}", str(days) if days else "", remarks)
    output().print(table)
    lines = [
        f"{report.tally.events:,} events, {len(report.rules):,} rules: {sum(report.tally.fired.values()):,} firings",
        f"never fired: {len(report.never):,}, always: {len(report.always):,}{_redundancy(report)}",
    ]
    if report.difference is not None:
        added, removed = len(report.difference.added), len(report.difference.removed)
        changed = len(report.difference.changed())
        lines.append(f"rules added: {added:,}, removed: {removed:,}, firing for other events: {changed:,}")
    if len(ordered) > _SHOWN:
        lines.append(f"the first {_SHOWN} rules are shown; for all of them: --json")
    for line in lines:
        output().say(line)
