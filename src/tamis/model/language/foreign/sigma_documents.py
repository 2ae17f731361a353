"""YAML documents of Sigma rules before pySigma reads them: shared parts, kinds that are refused, older spellings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from tamis.errors import ModelError

__all__ = ["check_document", "whole_documents"]

#: Kinds of documents that are not rules themselves, by the key that identifies them.
_REFUSED: Final = {
    "correlation": "a correlation rule keeps state between events, which a subscription does not",
    "filter": "a global filter changes other rules; write its condition into them",
    "action": "unknown action; known are global, reset and repeat",
}

#: Modifiers of the specification that pySigma knows by another name.
_SPELLINGS: Final = {"utf16le": "wide"}

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


def check_document(document: Any) -> dict[str, Any]:
    """Return a document as pySigma reads it, or raise `ModelError` that says why it is not a rule."""
    if not isinstance(document, Mapping):
        raise ModelError(f"a Sigma rule is a YAML mapping, not {type(document).__name__}")
    for key, reason in _REFUSED.items():
        if key in document:
            raise ModelError(reason)
    detection = document.get("detection")
    if not isinstance(detection, Mapping):
        return dict(document)
    respelled = _respelled(detection)
    conditions = detection.get("condition")
    if isinstance(conditions, list):
        respelled["condition"] = [_condition(condition, detection) for condition in conditions]
    elif "condition" in detection:
        respelled["condition"] = _condition(conditions, detection)
    return {**document, "detection": respelled}


def _condition(condition: Any, selections: Mapping[Any, Any]) -> Any:
    """Return a condition with its operators in small letters, as pySigma reads them."""
    if not isinstance(condition, str):
        return condition
    if "|" in condition:
        aggregation = condition[condition.index("|") :].strip()
        raise ModelError(f"an aggregation ({aggregation}) keeps state between events, which a subscription does not")
    return _OPERATOR.sub(lambda word: word[0] if word[0] in selections else word[0].lower(), condition)


def _respelled(part: Any) -> Any:
    """Return a part of a detection with the modifiers that pySigma knows."""
    if isinstance(part, list):
        return [_respelled(item) for item in part]
    if not isinstance(part, Mapping):
        return part
    return {_field(key): _respelled(value) for key, value in part.items()}


def _field(key: Any) -> Any:
    if not isinstance(key, str) or "|" not in key:
        return key
    name, *modifiers = key.split("|")
    return "|".join([name, *(_SPELLINGS.get(modifier, modifier) for modifier in modifiers)])
