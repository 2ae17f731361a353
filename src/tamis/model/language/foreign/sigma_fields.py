"""What the fields of Sigma rules are called in events, and which type each of them has.

Sigma has no types: a rule may write ``EventID: 4688`` and another ``EventID: '4688'``, and loggers write either. So a
field is text, and numbers in events are read as text. A file of fields may declare a number or a boolean instead.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tamis.errors import ModelError
from tamis.model.schema import ALL_STRINGS

__all__ = ["KINDS", "Fields", "read_fields"]

#: Types that a field may have.
KINDS: Final = ("string", "number", "boolean")

#: Bytes of a file of fields.
_MOST_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Fields:
    """Names and types of fields, as a file says."""

    #: The attributes that a field becomes, by the name it has in rules; a field not named keeps its name.
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    #: Types that the file declares, by the name in rules.
    declared: Mapping[str, str] = field(default_factory=dict)
    #: The attributes that values without a field are looked for in.
    keywords: tuple[str, ...] = (ALL_STRINGS,)
    #: What each placeholder (``%name%``, with the modifier expand) stands for.
    placeholders: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def attributes(self, name: str) -> tuple[str, ...]:
        """Return the attributes that a field becomes: any of them may hold the value."""
        return self.names.get(name, (name,))

    def values_of(self, placeholder: str) -> tuple[str, ...]:
        """Return what a placeholder stands for, or raise `ModelError` that says where to write it.

        The values under ``"*"`` are those of every placeholder that is not listed.
        """
        values = self.placeholders.get(placeholder) or self.placeholders.get("*")
        if values is None:
            raise ModelError(
                f"the placeholder %{placeholder}% has no values; list them under [placeholders] in the file of fields, "
                'or under "*" for all placeholders'
            )
        return values

    def kind(self, name: str) -> str:
        """Return the type of a field: string, unless the file says number or boolean."""
        return self.declared.get(name, "string")


def read_fields(path: Path | None) -> Fields:
    """Read a file of fields (TOML), or raise `ModelError` that names the entry.

    ``[fields]`` has an entry for each field: the attribute, a list of attributes, or a table with ``name`` and
    ``type``. ``keywords`` is the list of attributes in which values without a field are looked for. ``[placeholders]``
    has the values of each placeholder.
    """
    if path is None:
        return Fields()
    if path.stat().st_size > _MOST_BYTES:
        raise ModelError(f"{path}: more than {_MOST_BYTES:,} bytes are too many for a file of fields")
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ModelError(f"{path}: not TOML in UTF-8: {error}") from None
    unknown = sorted(set(document) - {"fields", "keywords", "placeholders"})
    if unknown:
        raise ModelError(f"{path}: unknown entry {unknown[0]!r}; known are fields, keywords and placeholders")
    names, declared = dict[str, tuple[str, ...]](), dict[str, str]()
    for name, entry in _table(path, document, "fields").items():
        described = entry if isinstance(entry, Mapping) else {"name": entry}
        if set(described) - {"name", "type"}:
            raise ModelError(f"{path}: field {name!r}: expected name and type, not {', '.join(described)}")
        if "name" in described:
            names[name] = _names(path, name, described["name"])
        if "type" in described:
            declared[name] = _kind(path, name, described["type"])
    keywords = _names(path, "keywords", document.get("keywords", [ALL_STRINGS]))
    lists = _table(path, document, "placeholders").items()
    return Fields(names, declared, keywords, {name: _values(path, name, entry) for name, entry in lists})


def _table(path: Path, document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    entry = document.get(name, {})
    if not isinstance(entry, Mapping):
        raise ModelError(f"{path}: [{name}] is a table of {name}")
    return entry


def _values(path: Path, name: str, entry: Any) -> tuple[str, ...]:
    values = entry if isinstance(entry, list) else [entry]
    if not values or not all(isinstance(value, str | int) and not isinstance(value, bool) for value in values):
        raise ModelError(f"{path}: placeholder {name!r}: expected a text, a number or a list of them, not {entry!r}")
    return tuple(map(str, values))


def _names(path: Path, name: str, entry: Any) -> tuple[str, ...]:
    attributes = [entry] if isinstance(entry, str) else entry
    if not isinstance(attributes, list) or not attributes or not all(isinstance(a, str) and a for a in attributes):
        raise ModelError(f"{path}: {name!r}: expected the name of an attribute or a list of names, not {entry!r}")
    return tuple(attributes)


def _kind(path: Path, name: str, entry: Any) -> str:
    if entry not in KINDS:
        raise ModelError(f"{path}: field {name!r}: the type is one of {', '.join(KINDS)}, not {entry!r}")
    return str(entry)
