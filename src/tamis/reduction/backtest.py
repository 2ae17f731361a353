"""Runs rules on past events: firings per rule and day, rules that never or always fire, redundant rules.

`Tally` counts pairs of event and rule, wherever they come from; `Backtest` is the report. Two versions of a rule set
that were run on the same events are compared pair by pair (`Difference`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from xml.etree import ElementTree

from tamis.model.subscription import SubscriptionId
from tamis.reduction.report import Reduction

__all__ = ["Backtest", "Difference", "Tally", "junit_xml", "rule_of"]

#: Why a rule is not needed, and the rules that make it so.
_Reason = tuple[str, tuple[SubscriptionId, ...]]


def rule_of(id: SubscriptionId, metadata: Mapping[str, str]) -> SubscriptionId:
    """Return the rule of a subscription: a long Sigma rule becomes several subscriptions, which name it.

    >>> rule_of("r1 (part 2)", {"rule": "r1"}), rule_of("r2", {"rule": "r1"})
    ('r1', 'r2')
    """
    rule = metadata.get("rule")
    return rule if rule is not None and str(id).startswith(f"{rule} (part ") else id


@dataclass(slots=True)
class Tally:
    """Firings so far: events, firings by rule, and firings by rule and day (ISO dates)."""

    events: int = 0
    fired: Counter[SubscriptionId] = field(default_factory=Counter)
    by_day: dict[SubscriptionId, Counter[str]] = field(default_factory=dict)

    def add(self, rules: Iterable[SubscriptionId], days: Iterable[str | None] | None = None) -> None:
        """Count firings, with the day of each where it is known."""
        if days is None:
            self.fired.update(rules)
            return
        for rule, day in zip(rules, days, strict=True):
            self.fired[rule] += 1
            if day is not None:
                self.by_day.setdefault(rule, Counter())[day] += 1


@dataclass(slots=True)
class Difference:
    """The difference of two versions of a rule set: rules added or removed, and pairs that only one version has."""

    added: tuple[SubscriptionId, ...] = ()
    removed: tuple[SubscriptionId, ...] = ()
    #: Firings that only the new version has, and only the old one, by rule.
    gained: Counter[SubscriptionId] = field(default_factory=Counter)
    lost: Counter[SubscriptionId] = field(default_factory=Counter)

    def add(self, old: set[tuple[int, SubscriptionId]], new: set[tuple[int, SubscriptionId]]) -> None:
        """Compare the pairs (event, rule) of both versions on the same events."""
        self.gained.update(rule for _, rule in new - old)
        self.lost.update(rule for _, rule in old - new)

    def changed(self) -> list[SubscriptionId]:
        """Return the rules of both versions that fire for different events, the most changed first."""
        total = self.gained + self.lost
        return [rule for rule, _ in total.most_common() if rule not in self.added and rule not in self.removed]

    def as_json(self) -> dict[str, Any]:
        """Return the difference as plain lists and dicts."""
        changed = {str(rule): {"gained": self.gained[rule], "lost": self.lost[rule]} for rule in self.changed()}
        return {"added": list(self.added), "removed": list(self.removed), "changed": changed}


@dataclass(frozen=True, slots=True)
class Backtest:
    """The report of a run: every rule, its firings, and whether other rules make it redundant."""

    #: The rules with their titles, if they have any.
    titles: Mapping[SubscriptionId, str]
    tally: Tally
    #: Why a rule is not needed: covered, equivalent, subsumed or impossible, and the rules that make it so.
    redundant: Mapping[SubscriptionId, _Reason]
    difference: Difference | None = None
    #: Rules that may be redundant: the budget of the proof ran out. None: redundancy was not asked for.
    undecided: frozenset[SubscriptionId] | None = None

    @classmethod
    def of(
        cls,
        titles: Mapping[SubscriptionId, str],
        tally: Tally,
        reduction: Reduction | None,
        difference: Difference | None = None,
        rules: Mapping[SubscriptionId, SubscriptionId] | None = None,
    ) -> Backtest:
        """Combine the counts with the result of a reduction of the rules.

        ``rules`` maps each subscription that is part of a rule to that rule: a reduction compares subscriptions.
        """
        redundant: dict[SubscriptionId, _Reason] = {}
        if reduction is not None:
            redundant |= {rule: ("covered", (by,)) for rule, by in reduction.covered.items()}
            redundant |= {rule: ("equivalent", (by,)) for rule, by in reduction.equivalent.items()}
            redundant |= {rule: ("subsumed", tuple(by)) for rule, by in reduction.subsumed.items()}
            redundant |= dict.fromkeys(reduction.impossible, ("impossible", ()))
        if rules:
            redundant = _of_whole_rules(redundant, rules)
        if reduction is None:
            return cls(titles, tally, redundant, difference)
        whole = {rules.get(id, id) if rules else id for id in reduction.undecided}
        return cls(titles, tally, redundant, difference, frozenset(whole - redundant.keys()))

    @property
    def rules(self) -> list[SubscriptionId]:
        """The ids of all rules."""
        return list(self.titles)

    @property
    def never(self) -> list[SubscriptionId]:
        """Rules that fired for no event."""
        return [rule for rule in self.rules if not self.tally.fired[rule]]

    @property
    def always(self) -> list[SubscriptionId]:
        """Rules that fired for every event."""
        return [rule for rule in self.rules if self.tally.events and self.tally.fired[rule] == self.tally.events]

    def verdicts(self, rule: SubscriptionId) -> dict[str, str]:
        """Return the verdicts on a rule by kind: never, always, redundant, undecided, added, changed."""
        verdicts: dict[str, str] = {}
        fired = self.tally.fired[rule]
        if not fired:
            verdicts["never"] = f"none of {self.tally.events:,} events"
        elif fired == self.tally.events:
            verdicts["always"] = f"each of {self.tally.events:,} events"
        if rule in self.redundant:
            why, by = self.redundant[rule]
            verdicts["redundant"] = f"{why} by {', '.join(self.titles.get(id) or str(id) for id in by)}" if by else why
        elif rule in (self.undecided or ()):
            verdicts["undecided"] = "others may make it redundant; the proof ran out of its budget"
        difference = self.difference or Difference()
        gained, lost = difference.gained[rule], difference.lost[rule]
        if rule in difference.added:
            verdicts["added"] = "not in the older rules"
        elif gained or lost:
            verdicts["changed"] = f"{gained:,} events more, {lost:,} fewer"
        return verdicts

    def as_json(self) -> dict[str, Any]:
        """Return the report as plain lists and dicts."""
        report: dict[str, Any] = {
            "events": self.tally.events,
            "rules": [
                {
                    "id": rule,
                    **({"title": self.titles[rule]} if self.titles[rule] else {}),
                    "fired": self.tally.fired[rule],
                    "days": dict(sorted(self.tally.by_day.get(rule, {}).items())),
                    **self.verdicts(rule),
                }
                for rule in self.rules
            ],
            "never": self.never,
            "always": self.always,
            "redundant": {str(rule): {"why": why, "by": list(by)} for rule, (why, by) in self.redundant.items()},
            "undecided": None if self.undecided is None else [rule for rule in self.rules if rule in self.undecided],
        }
        return report if self.difference is None else {**report, "difference": self.difference.as_json()}


def _of_whole_rules(
    redundant: Mapping[SubscriptionId, _Reason], rules: Mapping[SubscriptionId, SubscriptionId]
) -> dict[SubscriptionId, _Reason]:
    """Return why whole rules are redundant; a rule in parts is redundant if each of its parts is."""
    parts: dict[SubscriptionId, list[SubscriptionId]] = {}
    for part, rule in rules.items():
        parts.setdefault(rule, []).append(part)
    redundant_parts = {
        id: (why, tuple(dict.fromkeys(rules.get(other, other) for other in by)))
        for id, (why, by) in redundant.items()
        if id not in rules
    }
    for rule, own in parts.items():
        reasons = [redundant[part] for part in own if part in redundant]
        others = [rules.get(other, other) for _, by in reasons for other in by]
        others = [other for other in dict.fromkeys(others) if other != rule]
        whys = {why for why, _ in reasons}
        if len(reasons) == len(own) and (others or whys == {"impossible"}):
            redundant_parts[rule] = (whys.pop() if len(whys) == 1 else "subsumed", tuple(others))
    return redundant_parts


def junit_xml(report: Backtest, failing: Iterable[str]) -> bytes:
    """Return the report as JUnit XML: a test case per rule, failed where it has a verdict of a kind in ``failing``.

    >>> report = Backtest.of({"a": ""}, Tally(3), None)
    >>> print(junit_xml(report, ["never"]).decode().splitlines()[1][:61])
    <testsuite name="tamis backtest" tests="1" failures="1"><test
    """
    kinds, failures = set(failing), 0
    suite = ElementTree.Element("testsuite", name="tamis backtest", tests=str(len(report.rules)))
    for rule in report.rules:
        case = ElementTree.SubElement(
            suite, "testcase", classname=_xml_text(str(rule)), name=_xml_text(report.titles[rule] or str(rule))
        )
        verdicts = report.verdicts(rule)
        bad = {kind: text for kind, text in verdicts.items() if kind in kinds}
        if bad:
            failures += 1
            text = _xml_text("; ".join(f"{kind}: {reason}" for kind, reason in bad.items()))
            ElementTree.SubElement(case, "failure", type=" ".join(bad), message=text)
        out = ElementTree.SubElement(case, "system-out")
        out.text = _xml_text(
            "\n".join(
                [f"fired {report.tally.fired[rule]:,} times", *(f"{kind}: {text}" for kind, text in verdicts.items())]
            )
        )
    suite.set("failures", str(failures))
    return bytes(ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True))


def _xml_text(text: str) -> str:
    """Return text without the characters that XML cannot hold."""
    return "".join(c if c in "\t\n\r" or (c >= " " and c not in "\ufffe\uffff") else "\ufffd" for c in text)
