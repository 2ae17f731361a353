"""Keeps a set of subscriptions equal to the rules in files: reads the rules and finds the differences.

A set has a name, which is in the metadata of each of its subscriptions (`SET`). So files change the subscriptions of
their own set only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from tamis.errors import TableError
from tamis.files.sigma_rules import read_sigma_rules
from tamis.files.subscriptions import Record, SubscriptionFile
from tamis.model.subscription import SubscriptionId
from tamis.model.types import Timestamp
from tamis.model.values import UnfitError

__all__ = ["DELIVERY_OPTIONS", "SET", "FileRule", "Plan", "changed_options", "compare_rules", "read_rules"]

#: The key in the metadata of a subscription that names its set.
SET = "rules"

#: What a rule says of its deliveries; a saved engine has none.
DELIVERY_OPTIONS = ("durable", "fields", "max_deliveries")

_PLAIN, _SIGMA = (".txt", ".cql2"), (".yml", ".yaml")
_TABLES = (".jsonl", ".ndjson", ".json", ".csv", ".parquet", ".pq")


@dataclass(frozen=True)
class FileRule:
    """A subscription as files or a broker have it; ``expires`` is in microseconds UTC, ``place`` says where it is.

    ``fields`` are the attributes that deliveries carry, all without them; ``max_deliveries`` is how often a message may
    be taken, 0: as often as its readers like.
    """

    id: SubscriptionId
    namespace: str
    filter: str
    expires: int | None = None
    metadata: Mapping[str, str] = field(default_factory=dict, hash=False)
    place: str = field(default="", compare=False)
    durable: bool = True
    fields: tuple[str, ...] = ()
    max_deliveries: int = 0

    @property
    def key(self) -> tuple[str, SubscriptionId]:
        """The namespace and the id."""
        return self.namespace, self.id


@dataclass(frozen=True)
class Plan:
    """The changes that make a set equal to the files; ``changed`` has pairs of the present and the wanted rule."""

    added: list[FileRule]
    changed: list[tuple[FileRule, FileRule]]
    removed: list[FileRule]
    same: int

    @property
    def is_empty(self) -> bool:
        """Whether no change is needed."""
        return not (self.added or self.changed or self.removed)


def read_rules(path: str | Path, set_name: str) -> list[FileRule]:
    """Return the rules of a file or of all files in a folder, each marked with the name of its set.

    A rule of a text file is called by the file if it is the only one there, by file and line otherwise. Two rules with
    the same id, and a file that cannot be read, raise `TableError` with the place.
    """
    rules: dict[tuple[str, SubscriptionId], FileRule] = {}
    for file in _files(Path(path)):
        for rule in _rules_of(file):
            if rule.key in rules:
                raise TableError(f"{rule.place}: the id {rule.id!r} is also in {rules[rule.key].place}")
            rules[rule.key] = replace(rule, metadata={**rule.metadata, SET: set_name})
    if not rules:
        raise TableError(f"{path}: there is no rule in it")
    return list(rules.values())


def compare_rules(new_rules: Iterable[FileRule], present: Iterable[FileRule]) -> Plan:
    """Return what must be added, changed and removed so that ``present`` becomes ``new_rules``.

    >>> old, new = FileRule("a", "default", "x > 1"), FileRule("a", "default", "x > 2")
    >>> plan = compare_rules([new, FileRule("b", "default", "y = 1")], [old, FileRule("c", "default", "z = 1")])
    >>> [one.id for one in plan.added], plan.changed == [(old, new)], [one.id for one in plan.removed], plan.same
    (['b'], True, ['c'], 0)
    """
    unmatched = {rule.key: rule for rule in present}
    added, changed, same = list[FileRule](), list[tuple[FileRule, FileRule]](), 0
    for rule in new_rules:
        former = unmatched.pop(rule.key, None)
        if former is None:
            added.append(rule)
        elif former != rule:
            changed.append((former, rule))
        else:
            same += 1
    return Plan(added, changed, list(unmatched.values()), same)


def changed_options(old: FileRule, new: FileRule) -> dict[str, tuple[Any, Any]]:
    """Return what differs between two rules besides their filters: the old and the new value by name.

    >>> changed_options(FileRule("a", "n", "x > 1"), FileRule("a", "n", "x > 2", max_deliveries=5))
    {'max_deliveries': (0, 5)}
    """
    pairs = {name: (getattr(old, name), getattr(new, name)) for name in ("expires", "metadata", *DELIVERY_OPTIONS)}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _files(path: Path) -> Iterator[Path]:
    """Yield a file, or those of a folder that hold rules, in the order of their names."""
    if not path.exists():
        raise TableError(f"{path}: there is no such file or folder")
    if not path.is_dir():
        yield path
        return
    suffixes = (*_PLAIN, *_TABLES, *_SIGMA)
    for file in sorted(path.rglob("*")):
        hidden = any(part.startswith(".") for part in file.relative_to(path).parts)
        if not file.is_file() or hidden or file.stem.upper() == "README":
            continue
        if not file.name.lower().removesuffix(".gz").endswith(suffixes):
            # Its rules would be removed from the broker if the name is a slip.
            names = ", ".join(suffixes)
            raise TableError(f"{file}: not a file of rules by its name (known: {names}); rename it, or move it away")
        yield file


def _rules_of(file: Path) -> Iterator[FileRule]:
    name = file.name.lower().removesuffix(".gz")
    if name.endswith(_SIGMA):
        yield from _sigma_rules(file)
        return
    records = list(SubscriptionFile(str(file)))
    stem = file.name.split(".")[0]
    for record in records:
        id = record.id
        if name.endswith(_PLAIN):
            id = stem if len(records) == 1 else f"{stem}:{record.id}"
        yield _rule(replace(record, id=id), file)


def _sigma_rules(file: Path) -> Iterator[FileRule]:
    sigma = read_sigma_rules([file])
    for refused in sigma.refused:
        raise TableError(f"{file}, rule {refused.name!r}: {refused.reason}")
    for record in sigma.records:
        if isinstance(record.filter, bool):
            raise TableError(f"{file}, rule {record.id!r}: it matches {'every' if record.filter else 'no'} event")
        yield _rule(
            Record(record.filter, record.id, record.namespace, None, 0, f"rule {record.id!r}", record.metadata), file
        )


def _rule(record: Record, file: Path) -> FileRule:
    text = record.source if isinstance(record.source, str) else msgspec.json.encode(record.source).decode()
    location = f"{file}, {record.place}"
    try:
        expires = None if record.expires is None else int(Timestamp().canonical(record.expires))
    except UnfitError as error:
        raise TableError(f"{location}: expires: {error}") from None
    try:
        options = _options(record.others)
    except ValueError as error:
        raise TableError(f"{location}: {error}") from None
    return FileRule(record.id, record.namespace, text, expires, dict(record.metadata), location, **options)


def _options(others: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a rule says of its deliveries, in a table of texts, too; `ValueError` names what is wrong."""
    if unknown := [key for key in others if key not in DELIVERY_OPTIONS]:
        names = ", ".join(("id", "filter", "namespace", "expires", "metadata", *DELIVERY_OPTIONS))
        raise ValueError(f"unknown key {unknown[0]!r} (known: {names}); notes of your own belong into metadata")
    readers = {"durable": _read_durable, "fields": _read_fields, "max_deliveries": _read_max_deliveries}
    return {key: readers[key](value) for key, value in others.items() if value is not None}


def _read_durable(value: Any) -> bool:
    durable = {"true": True, "false": False}.get(value.lower()) if isinstance(value, str) else value
    if not isinstance(durable, bool):
        raise ValueError(f"durable: expected true or false, got {value!r}")
    return durable


def _read_fields(value: Any) -> tuple[str, ...]:
    names = [name.strip() for name in value.split(",")] if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise ValueError(f"fields: expected a list of names of attributes, got {value!r}")
    return tuple(names)


def _read_max_deliveries(value: Any) -> int:
    count = int(value) if isinstance(value, str) and value.isascii() and value.isdecimal() else value
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        raise ValueError(f"max_deliveries: expected a whole number, 0 or more, got {value!r}")
    return count
