"""Converts files and folders of Sigma rules (YAML) to subscriptions: records with filter and metadata.

Each rule becomes a record, or a refusal that names its file, its title and the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from tamis.errors import LimitError, MissingExtraError, ModelError, TamisError, shorten
from tamis.model.language.bind import bind, learn_from_node
from tamis.model.language.cql2_json import to_json
from tamis.model.language.foreign.sigma import read_sigma_rule, sigma_node
from tamis.model.language.foreign.sigma_documents import RuleHeader, head_of, whole_documents
from tamis.model.language.foreign.sigma_fields import Fields
from tamis.model.language.foreign.sigma_parts import parts_within
from tamis.model.language.format import format_node
from tamis.model.language.nodes import And, Calculated, Compare, Constant, Node, leaves
from tamis.model.language.parse import parse
from tamis.model.schema import Schema
from tamis.model.subscription import DEFAULT_NAMESPACE
from tamis.model.types import AttributeType, String

if TYPE_CHECKING:
    from sigma.rule import SigmaRule

__all__ = ["LogSource", "RefusedRule", "SigmaRecord", "SigmaRecords", "read_sigma_rules"]

#: Bytes of one file of rules; the largest public ones have about 100 KiB.
_MOST_BYTES: Final = 1 << 20
#: Levels of a file of rules, and digits of a number: those in base 60 (``1:30:00``) take the square of their length.
_MOST_LEVELS: Final = 32
_MOST_DIGITS: Final = 4_096
_SUFFIXES: Final = (".yml", ".yaml")
#: What becomes of the log source of a rule: metadata alone, or also conditions, or the namespace.
LogSource = Literal["metadata", "condition", "namespace"]


@dataclass(frozen=True, slots=True)
class SigmaRecord:
    """A rule as a subscription; the filter is text or, where that would be too long, CQL2-JSON."""

    id: str
    filter: str | dict[str, Any] | bool
    metadata: dict[str, str]
    namespace: str = DEFAULT_NAMESPACE

    def as_json(self) -> dict[str, object]:
        """Return the record as files of subscriptions have it."""
        named = {} if self.namespace == DEFAULT_NAMESPACE else {"namespace": self.namespace}
        return {"id": self.id, "filter": self.filter, **named, "metadata": self.metadata}


@dataclass(frozen=True, slots=True)
class RefusedRule:
    """A rule that did not become a subscription, and why."""

    path: Path
    name: str
    reason: str


@dataclass(slots=True)
class SigmaRecords:
    """The result of an import: records, refused rules and the types of attributes."""

    records: list[SigmaRecord] = field(default_factory=list)
    refused: list[RefusedRule] = field(default_factory=list)
    #: Rules that became records; a rule that is longer than a filter may be becomes several.
    n_rules: int = 0
    #: The type of each attribute that the records name.
    types: dict[str, AttributeType] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Rule:
    """A parsed rule and its file."""

    path: Path
    head: RuleHeader
    rule: SigmaRule

    @property
    def id(self) -> str:
        return self.head.id or self.head.title or self.path.stem


def read_sigma_rules(
    paths: Iterable[Path], fields: Fields | None = None, logsource: LogSource = "metadata"
) -> SigmaRecords:
    """Read files, and all .yml and .yaml files below folders; raise `ModelError` when there is no such file."""
    fields, records = fields or Fields(), SigmaRecords()
    rules: list[_Rule] = []
    for path in _files(paths):
        try:
            documents = _documents(path)
        except ModelError as error:
            records.refused.append(RefusedRule(path, path.stem, str(error)))
            continue
        if not documents:
            records.refused.append(RefusedRule(path, path.stem, "there is no rule in it"))
        for number, document in enumerate(documents, 1):
            try:
                rule = read_sigma_rule(document)
                rules.append(_Rule(path, head_of(document), rule))
            except ModelError as error:
                records.refused.append(RefusedRule(path, _name_of(document, path, number), str(error)))
    _convert(rules, fields, logsource, records)
    return records


def _convert(rules: Iterable[_Rule], fields: Fields, logsource: LogSource, result: SigmaRecords) -> None:
    file_of: dict[str, Path] = {}
    for rule in rules:
        try:
            if rule.id in file_of:
                raise ModelError(_repeated(rule, file_of[rule.id]))
            node, namespace = _placed(rule, fields, logsource)
            records = _records(node, rule, namespace)
        except TamisError as error:
            result.refused.append(RefusedRule(rule.path, rule.head.title or rule.path.stem, str(error)))
            continue
        file_of[rule.id] = rule.path
        result.types |= _types(node)
        result.records += records
        result.n_rules += 1


def _repeated(rule: _Rule, other: Path) -> str:
    if rule.head.id is not None:
        return f"the id {rule.id} is that of a rule in {other}; give one of them another id"
    named = "title" if rule.head.title else "file name"
    return f"it has no id, and a rule in {other} has its {named} ({rule.id}) as the id; give this rule an id"


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        below = sorted(file for file in path.rglob("*") if file.suffix.lower() in _SUFFIXES and file.is_file())
        if not below:
            raise ModelError(f"{path}: there is no .yml or .yaml file in it")
        yield from below


def _documents(path: Path) -> list[Any]:
    """Return the documents of a YAML file; aliases are refused, for a few of them can stand for gigabytes."""
    try:
        import yaml
    except ImportError:
        raise MissingExtraError("reading Sigma rules", "sigma") from None
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise ModelError(f"more than {_MOST_BYTES:,} bytes are too many for a file of rules")
        text = data.decode("utf-8-sig")
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml, where PyYAML was built with it
        _check_yaml(yaml.parse(text, Loader=loader))
        documents = yaml.load_all(text, Loader=loader)
        return list(whole_documents(document for document in documents if document is not None))
    except PermissionError:
        raise ModelError("this user may not read the file") from None
    except UnicodeDecodeError:
        raise ModelError("not text in UTF-8; a rule is a YAML file") from None
    except (yaml.YAMLError, ValueError) as error:
        if isinstance(error, ModelError):
            raise
        problem = " ".join(str(error).replace('in "<unicode string>",', "at").split())
        raise ModelError(f"not YAML: {problem}") from None
    except RecursionError:
        raise ModelError("the YAML nests too deeply") from None


def _check_yaml(events: Iterable[Any]) -> None:
    """Refuse what costs more than its length: aliases, deep nesting, tags, and numbers of thousands of digits."""
    depth = 0
    for event in events:
        kind = type(event).__name__
        depth += kind.endswith("StartEvent") - kind.endswith("EndEvent")
        if kind == "AliasEvent":
            raise ModelError("YAML aliases (*name) are not read; write the values out")
        if depth > _MOST_LEVELS:
            raise ModelError("the YAML nests too deeply")
        if getattr(event, "tag", None) is not None:
            raise ModelError(f"YAML tags such as {shorten(event.tag)} are not read")
        if kind == "ScalarEvent" and event.value[:2].strip("+-")[:1].isdigit() and len(event.value) > _MOST_DIGITS:
            raise ModelError(f"a number of more than {_MOST_DIGITS:,} digits is not read")


def _name_of(document: Any, path: Path, number: int) -> str:
    title = document.get("title") if isinstance(document, dict) else None
    return title if isinstance(title, str) else f"{path.stem}, document {number}"


def _placed(rule: _Rule, fields: Fields, logsource: LogSource) -> tuple[Node, str]:
    """Return the condition and the namespace of a rule; the log source may be part of either."""
    node, source = sigma_node(rule.rule, fields), rule.head.source
    if logsource == "condition" and source:
        node = And((*_conditions(source, fields), *(node.parts if isinstance(node, And) else (node,))))
    is_namespace = logsource == "namespace" and source
    return node, "-".join(source.values()) if is_namespace else DEFAULT_NAMESPACE


def _types(node: Node) -> dict[str, AttributeType]:
    """Return the types of all attributes of a condition; an attribute that is only tested for NULL is text."""
    named = (leaf.attribute for leaf in leaves(node) if not isinstance(leaf, Calculated | Constant))
    return dict.fromkeys(named, String(coerce=True)) | dict(learn_from_node(Schema(), node))


def _records(node: Node, rule: _Rule, namespace: str) -> list[SigmaRecord]:
    try:
        return [SigmaRecord(rule.id, _written(node), rule.head.metadata, namespace)]
    except LimitError:
        return list(_cut(node, rule, namespace))


def _cut(node: Node, rule: _Rule, namespace: str) -> Iterator[SigmaRecord]:
    """Yield the records of a rule that is longer than a filter may be."""
    parts = parts_within(node)
    for number, part in enumerate(parts, 1):
        title = f"{rule.head.title or rule.id} (part {number} of {len(parts)})"
        metadata = {**rule.head.metadata, "title": title, "rule": rule.id}
        yield SigmaRecord(f"{rule.id} (part {number})", _written(part), metadata, namespace)


def _conditions(source: dict[str, str], fields: Fields) -> Iterator[Node]:
    for part, value in source.items():
        for attribute in fields.attributes(f"logsource.{part}"):
            yield Compare(attribute, "=", value)


def _written(node: Node) -> str | dict[str, Any] | bool:
    """Return the text of a tree as a valid filter; CQL2-JSON, which may be longer, if the text exceeds the limit."""
    bind(node, learn_from_node(Schema(), node), open=True)
    text = format_node(node)
    try:
        parse(text)
    except LimitError:
        document = to_json(node)
        if isinstance(document, dict):
            parse(document)
        return document
    return text
