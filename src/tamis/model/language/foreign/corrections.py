"""What a text of another language would be in CQL2: ``a == 1 && b != 2`` is ``a = 1 AND b <> 2``."""

from __future__ import annotations

import re

from tamis.model.language.lexer import NAME_PART
from tamis.model.language.literals import STRING

__all__ = ["corrected"]

_NAME = rf'"[^"]*+(?:""[^"]*+)*+"|{NAME_PART}++'
_TOKEN = re.compile(
    rf"""(?P<string>{STRING})
    | (?P<before><>|<=|>=|!=|==|=>|=<|[=<>])(?P<space>\s*+)"(?P<value>[^"]*+(?:""[^"]*+)*+)"
    | \b(?P<call>(?ai:MATCHES|I?LIKE))\s*+\(\s*+(?P<first>{_NAME})\s*+,\s*+(?P<second>{STRING})\s*+\)
    | "[^"]*+(?:""[^"]*+)*+"
    | \s*+(?P<word>&&|\|\|)\s*+
    | (?P<operator>!=|==|=>|=<|!)""",
    re.VERBOSE,
)
_WRITTEN = {"!=": "<>", "==": "=", "=>": ">=", "=<": "<=", "&&": " AND ", "||": " OR ", "!": "NOT "}


def corrected(text: str) -> str | None:
    """Return a text as CQL2 has it; None when it has nothing of another language.

    Operators of other languages, operators that are called like functions, and values in double quotes are rewritten.

    >>> corrected('state == "running" && !halted')
    "state = 'running' AND NOT halted"
    >>> corrected("matches(note, 'x+')")
    "note MATCHES 'x+'"
    >>> corrected("price < 100")
    """
    fixed = _TOKEN.sub(_replaced, text)
    return None if fixed == text else fixed


def _replaced(found: re.Match[str]) -> str:
    if found["before"]:
        value = found["value"].replace('""', '"').replace("'", "''")
        return f"{_WRITTEN.get(found['before'], found['before'])}{found['space']}'{value}'"
    if found["call"]:
        return f"{found['first']} {found['call'].upper()} {found['second']}"
    written = found["word"] or found["operator"]
    return _WRITTEN[written] if written else found[0]
