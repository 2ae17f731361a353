"""Proposes replacements for functions and operations that do not exist."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

__all__ = ["unsupported"]

_LONGEST_FUNCTION = 40

#: What to write for functions of other languages.
_INSTEAD = dict.fromkeys(("CONTAINS", "INCLUDES", "STRPOS", "INSTR"), "x LIKE '%text%'")
_INSTEAD |= dict.fromkeys(("STARTSWITH", "STARTS_WITH"), "x LIKE 'text%'")
_INSTEAD |= dict.fromkeys(("ENDSWITH", "ENDS_WITH"), "x LIKE '%text'")
_INSTEAD |= dict.fromkeys(("LOWER", "UPPER", "LCASE", "UCASE"), "CASEI(x) = CASEI('text')")
_INSTEAD |= dict.fromkeys(("REGEXP_LIKE", "REGEXP_MATCHES", "REGEXP"), "x MATCHES 'expression'")
_INSTEAD |= dict.fromkeys(("NOW", "CURRENT_TIMESTAMP"), "a fixed moment such as TIMESTAMP('2026-01-31T12:00:00Z')")
_INSTEAD |= dict.fromkeys(("IFNULL", "COALESCE", "NVL"), "x IS NULL OR x = 1")


def unsupported(name: str, names: Sequence[str]) -> str:
    """Return a message that a function or operation does not exist, with the one that was probably meant.

    >>> unsupported("S_INTERSECT", ["S_INTERSECTS", "S_WITHIN"])
    'S_INTERSECT is not supported, but S_INTERSECTS is'
    """
    short = name if len(name) <= _LONGEST_FUNCTION else f"{name[:_LONGEST_FUNCTION]}..."
    instead = _INSTEAD.get(name.rpartition(".")[2].upper())
    if instead is not None:
        return f"{short} is not supported; write {instead}"
    sought = re.sub("^ST_", "S_", short, flags=re.IGNORECASE)
    close = difflib.get_close_matches(sought, names, 1, cutoff=0.8)
    families = _families(names)
    meant = f"but {close[0]} is" if close else f"there are {', '.join(families[:-1])} and {families[-1]}"
    return f"{short} is not supported{',' if close else ';'} {meant}"


def _families(names: Sequence[str]) -> list[str]:
    """Return names, and in the place of many with one beginning that beginning.

    >>> _families(["S_WITHIN", "S_TOUCHES", "S_CROSSES", "CASEI", "S_EQUALS"])
    ['S_*', 'CASEI']
    """
    starts = [name.partition("_")[0] + "_*" if "_" in name else name for name in names]
    return [
        *dict.fromkeys(start if starts.count(start) > 2 else name for name, start in zip(names, starts, strict=True))
    ]
