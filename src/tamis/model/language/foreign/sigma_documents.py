"""YAML documents of Sigma rules before pySigma reads them: shared parts, kinds that are refused, other spellings.

pySigma reads the detection alone. What a document says besides is metadata (`RuleHeader`), and a date or a tag of a
wrong form does not keep a rule out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, Final
from uuid import UUID

from tamis.errors import ModelError

__all__ = ["RuleHeader", "check_document", "head_of", "opened_expression", "whole_documents"]

#: The parts of a log source, from the widest to the narrowest.
_SOURCE: Final = ("product", "category", "service")

#: Kinds of documents that are not rules themselves, by the key that identifies them.
_REFUSED: Final = {
    "correlation": "a correlation rule keeps state between events, which a subscription does not",
    "filter": "a global filter changes other rules; write its condition into them",
    "action": "unknown action; known are global, reset and repeat",
}

#: Modifiers of the specification that pySigma knows by another name.
_SPELLINGS: Final = {"utf16le": "wide"}

#: Modifiers of a regular expression that leave its text as it is.
_FLAGS: Final = {"re", "i", "m", "s", "ignorecase", "multiline", "dotall", "all", "neq"}
#: Modifiers whose values are text, and those whose values are numbers, however YAML reads them.
_OF_TEXT: Final = {"contains", "startswith", "endswith", "windash", "cased", "base64", "base64offset", "wide", "utf16"}
_OF_NUMBERS: Final = {"lt", "lte", "gt", "gte"}

#: What a sealed expression starts with.
_SEAL: Final = "sealed"

_NUMBER: Final = re.compile(r"-?[0-9]{1,18}(\.[0-9]{1,18})?")
_OPERATOR: Final = re.compile(r"\b(AND|OR|NOT)\b")


def whole_documents(documents: Iterable[Any]) -> Iterator[Any]:
    """Yield each rule of a collection as a whole.

    ``action: global`` is a document whose parts all documents behind it share, ``action: reset`` ends that, and
    ``action: repeat`` changes the rule before it. A shared id is that of the first rule; the others are told by their
    title and a number.

    >>> shared = {"action": "global", "title": "t", "logsource": {"product": "p"}}
    >>> list(whole_documents([shared, {"detection": {"s": 1}}, {"logsource": {"service": "q"}}]))[1]
    {'title': 't (2)', 'logsource': {'product': 'p', 'service': 'q'}}
    """
    shared: dict[str, Any] = {}
    previous: dict[str, Any] = {}
    n_rules = 0
    for document in documents:
        action = document.get("action") if isinstance(document, Mapping) else None
        own = {key: value for key, value in document.items() if key != "action"} if action else document
        if action == "global":
            shared, n_rules = _merged(shared, own), 0
        elif action == "reset":
            shared = {}
        elif action not in (None, "repeat") or not isinstance(document, Mapping):
            yield document
        else:
            n_rules += 1
            own = _merged(previous if action == "repeat" else shared, own)
            previous = own
            yield _told_apart(own, document, n_rules) if shared or action == "repeat" else own


def _merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Return two documents as one; where both have a value that is not a mapping, the second counts."""
    merged = dict(first)
    for key, value in second.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = _merged(merged[key], value) if both else value
    return merged


def _told_apart(whole: dict[str, Any], own: Mapping[str, Any], number: int) -> dict[str, Any]:
    if number == 1 or "id" in own:
        return whole
    without_id = {key: value for key, value in whole.items() if key != "id"}
    return without_id if "title" in own else without_id | {"title": f"{whole.get('title', 'rule')} ({number})"}


@dataclass(frozen=True, slots=True)
class RuleHeader:
    """What a document says of a rule besides its detection; an entry of another form than text is left out."""

    id: str | None
    title: str | None
    source: dict[str, str]
    metadata: dict[str, str]


def head_of(document: Mapping[str, Any]) -> RuleHeader:
    """Return the id, the title, the log source and the metadata of a document.

    >>> head_of({"title": "t", "level": "high", "tags": ["a.b"], "logsource": {"product": "p"}}).metadata
    {'title': 't', 'level': 'high', 'tags': 'a.b', 'logsource.product': 'p'}
    """
    logsource = document.get("logsource")
    parts = logsource if isinstance(logsource, Mapping) else {}
    source = {part: text for part in _SOURCE if (text := _text(parts.get(part)))}
    tags = document.get("tags")
    about = {
        **{name: _text(document.get(name)) for name in ("title", "status", "level")},
        "tags": ", ".join(filter(None, map(_text, tags if isinstance(tags, list) else [tags]))),
        "author": _text(document.get("author")),
        **{f"logsource.{part}": text for part, text in source.items()},
    }
    metadata = {name: text for name, text in about.items() if text}
    return RuleHeader(_text(document.get("id")), metadata.get("title"), source, metadata)


def _text(value: Any) -> str | None:
    return str(value) if isinstance(value, str | int | float | UUID) and not isinstance(value, bool) else None


def check_document(document: Any) -> dict[str, Any]:
    """Return the detection of a document as pySigma reads it, or raise `ModelError` that says why there is none."""
    if not isinstance(document, Mapping):
        form = "a list" if isinstance(document, list) else "a single value"
        raise ModelError(f"a Sigma rule is a YAML mapping with the keys title, logsource and detection, not {form}")
    for key, reason in _REFUSED.items():
        if key in document and (key == "action" or isinstance(document[key], Mapping)):
            raise ModelError(reason)
    detection = document.get("detection")
    if not isinstance(detection, Mapping):
        raise ModelError("not a valid Sigma rule: it has no detection (a mapping of selections and a condition)")
    respelled = _respelled(detection)
    selections = [str(name) for name in detection if name != "condition"]
    if not selections:
        raise ModelError("not a valid Sigma rule: its detection has no selection, only a condition")
    conditions = detection.get("condition")
    if conditions in (None, "", []):
        raise ModelError(
            f"not a valid Sigma rule: its detection has no condition; write one, such as condition: {selections[0]}"
        )
    if isinstance(conditions, list):
        respelled["condition"] = [_condition(condition, detection) for condition in conditions]
    else:
        respelled["condition"] = _condition(conditions, detection)
    return {"title": "a rule", "logsource": {"category": "any"}, "detection": respelled}


def _condition(condition: Any, selections: Mapping[Any, Any]) -> str:
    """Return a condition with its operators in small letters, as pySigma reads them."""
    if not isinstance(condition, str):
        raise ModelError(f"not a valid Sigma rule: a condition is text or a list of texts, not {condition!r}")
    if "|" in condition:
        aggregation = condition[condition.index("|") :].strip()
        raise ModelError(f"an aggregation ({aggregation}) keeps state between events, which a subscription does not")
    return _OPERATOR.sub(lambda word: word[0] if word[0] in selections else word[0].lower(), condition)


def _respelled(part: Any) -> Any:
    """Return a part of a detection with the modifiers that pySigma knows."""
    if isinstance(part, list):
        return [_respelled(item) for item in part]
    if isinstance(part, date):
        return part.isoformat()  # YAML reads 2024-01-31 as a date
    if not isinstance(part, Mapping):
        return part
    return {_field(key): _values(key, value) for key, value in part.items()}


def _values(key: Any, value: Any) -> Any:
    """Return the values of a field as its modifiers need them."""
    modifiers = set(key.split("|")[1:]) if isinstance(key, str) else set()
    if not modifiers or isinstance(value, Mapping):
        return _respelled(value)
    if isinstance(value, list):
        return [_values(key, item) for item in value]
    if "re" in modifiers and value is None:
        raise ModelError(f"not a valid Sigma rule: field {key!r}: |re needs a regular expression, not an empty value")
    if "re" in modifiers and modifiers <= _FLAGS:
        return _sealed(str(value))
    if isinstance(value, int | float) and not isinstance(value, bool) and modifiers & _OF_TEXT:
        return str(value)
    if isinstance(value, str) and modifiers & _OF_NUMBERS and _NUMBER.fullmatch(value):
        return float(value) if "." in value else int(value)
    return value


def _sealed(expression: str) -> str:
    """Return a regular expression as text that each engine accepts.

    pySigma checks expressions with `re` or with RE2, whichever it finds. They have other dialects than MATCHES, which
    checks an expression when its rule becomes a filter.
    """
    return _SEAL + expression.encode().hex()


def opened_expression(text: str) -> str:
    """Return the regular expression that was written in a document.

    >>> rule = {"detection": {"s": {"f|re": "a+"}, "condition": "s"}}
    >>> opened_expression(check_document(rule)["detection"]["s"]["f|re"])
    'a+'
    """
    return bytes.fromhex(text.removeprefix(_SEAL)).decode() if text.startswith(_SEAL) else text


def _field(key: Any) -> Any:
    if not isinstance(key, str) or "|" not in key:
        return key
    name, *modifiers = key.split("|")
    return "|".join([name, *(_SPELLINGS.get(modifier, modifier) for modifier in modifiers)])
