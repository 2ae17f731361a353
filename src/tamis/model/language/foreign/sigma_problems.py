"""What pySigma refuses in a detection, in the words of a rule: selection, field, value and what the field needs."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tamis.errors import shorten
from tamis.model.language.foreign.sigma_documents import opened_expression

__all__ = ["problem_of"]

_TEXT: Final = "text"
#: What the values of a modifier are.
_NEEDS: Final = {
    **dict.fromkeys(("gt", "gte", "lt", "lte"), "a number"),
    **dict.fromkeys(("minute", "hour", "day", "week", "month", "year"), "a number"),
    **dict.fromkeys(("contains", "startswith", "endswith", "windash", "cased", "base64", "base64offset"), _TEXT),
    **dict.fromkeys(("wide", "utf16", "utf16be", "expand"), _TEXT),
    "re": "a regular expression",
    "cidr": "a network such as 10.0.0.0/8",
    "exists": "true or false",
    "fieldref": "the name of a field",
}


def problem_of(detection: Mapping[str, Any], error: Exception) -> str:
    """Return why pySigma refuses a detection, with the place if a single field is to blame."""
    for name, selection in detection.items():
        for key, value in _entries(selection) if name != "condition" else ():
            problem = _problem_in(key, value)
            if problem is not None:
                location = f"field {key!r}" if key is not None else "a value without a field"
                return f"selection {name!r}, {location}: {problem}"
        if selection in ([], {}) or (isinstance(selection, list) and {} in selection):
            return f"selection {name!r} is empty"
    return str(error) or type(error).__name__


def _entries(selection: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the fields of a selection with their values; values without a field have None instead of its name."""
    if isinstance(selection, Mapping):
        yield from selection.items()
    elif isinstance(selection, list):
        for item in selection:
            yield from _entries(item)
    else:
        yield None, selection


def _problem_in(key: Any, value: Any) -> str | None:
    """Return why a field with its modifiers does not take one of its values; None if it does."""
    from sigma.exceptions import SigmaError
    from sigma.rule import SigmaDetectionItem

    if key is not None and not isinstance(key, str):
        return "the name of a field is text; write it in quotes"
    for element in value if isinstance(value, list) and value else [value]:
        if isinstance(element, Mapping):
            return "its value is a mapping; a field inside of another is written with a dot, as in outer.inner"
        if isinstance(element, list):
            return "its value is a list inside of a list; write one list"
        try:
            SigmaDetectionItem.from_mapping(key, element)
        except SigmaError as error:
            return _in_words(str(error), key, element)
        except (TypeError, ValueError, AttributeError):
            return f"{_shown(element)} is not a value of it"
    return None


def _in_words(message: str, key: str | None, value: Any) -> str:
    modifiers = [] if key is None else key.split("|")[1:]
    unknown = re.search(r"Unknown modifier '(.*)'", message)
    if unknown is not None:
        return f"{message}{_suggestion(unknown[1])}"
    if "only applicable to unmodified" in message:
        return f"these modifiers do not go together: {', '.join(modifiers)}"
    for modifier in modifiers:
        if modifier in _NEEDS and ("incompatible to value type" in message or modifier == "cidr"):
            why = message.partition("Invalid CIDR expression: ")[2]
            return f"|{modifier} needs {_NEEDS[modifier]}, not {_shown(value)}{why and f' ({why})'}"
    return message


def _suggestion(name: str) -> str:
    """Return the modifier that an unknown one may have meant, as the end of a message, or where they are listed."""
    from sigma.modifiers import modifier_mapping

    near = difflib.get_close_matches(name, modifier_mapping, 1)
    return f"; did you mean {near[0]}?" if near else f"; known are {', '.join(sorted(modifier_mapping))}"


def _shown(value: Any) -> str:
    if value is None:
        return "an empty value"
    return shorten(opened_expression(value)) if isinstance(value, str) else str(value).lower()
