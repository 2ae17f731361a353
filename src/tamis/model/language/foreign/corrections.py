"""What a text of another language would be in CQL2: ``a == 1 && b != 2`` is ``a = 1 AND b <> 2``."""

from __future__ import annotations

import re
from collections.abc import Callable

from tamis.model.language.lexer import NAME_PART
from tamis.model.language.literals import STRING
from tamis.model.text.folding import escape_like

__all__ = ["corrected", "quoted_name", "requoted"]

_NAME = rf'"[^"]*+(?:""[^"]*+)*+"|{NAME_PART}++'
_COMPARISON = r"<>|<=|>=|!=|==|=>|=<|[=<>]"
_VALUE = r'"(?P<value>[^"]*+(?:""[^"]*+)*+)"'
_SHAPE = r"(?:MULTI)?(?:POINT|LINESTRING|POLYGON)\s*+\([^']*\)"
#: What `_rewritten` has a function for, by the name of its group.
_TOKEN = re.compile(
    rf"""(?P<broken>'[^']*+)'(?P<tail>[^\W\d_][^'\s]*+')(?=\s*+(?:$|\)|(?i:AND|OR)\b))
    | (?P<comma>,\s*+)'(?P<shape>(?i:{_SHAPE}))'
    | (?P<string>{STRING})
    | (?P<nothing>{_COMPARISON}|(?ai:\bIS\b))\s*+(?P<negation>(?ai:NOT\b))?\s*+(?ai:NULL|NONE|NIL)\b
    | (?P<before>{_COMPARISON}|(?ai:\bI?LIKE|\bMATCHES))(?P<space>\s*+)(?:{_VALUE}|`(?P<ticked>[^`]*+)`)
    | [“”„«](?P<curly>[^“”„«»]*+)[“”»] | [‘’‚](?P<curled>[^‘’‚]*+)[‘’]
    | `(?P<name>[^`]*+)`
    | (?P<in>(?ai:\bIN))\s*+[\[{{](?P<list>[^\[\]{{}}()]*+)[\]}}]
    | \b(?P<folded>(?ai:LOWER|UPPER|LCASE|UCASE))\s*+\(\s*+(?P<of>{_NAME})\s*+\)
      (?P<op>\s*+(?:{_COMPARISON})\s*+)(?P<to>{STRING})
    | \b(?P<call>(?ai:MATCHES|I?LIKE))\s*+\(\s*+(?P<first>{_NAME})\s*+,\s*+(?P<second>{STRING})\s*+\)
    | \b(?P<infix>(?ai:CONTAINS|INCLUDES|STARTSWITH|STARTS_WITH|ENDSWITH|ENDS_WITH))\s*+(?P<part>{STRING}|"[^"]*+")
    | (?P<regex>=~|~\*?|(?ai:\b(?:REGEXP|RLIKE|REGEX)\b))(?=\s*+')
    | \b(?P<isnull>(?ai:IS_?(?:NOT_?)?NULL|NOTNULL))\b
    | \b(?P<spatial>(?ai:ST_))(?=[A-Za-z]++\s*+\()
    | \b(?P<function>{NAME_PART}++)\(\s*+(?:(?P<subject>{_NAME})\s*+,\s*+)?(?P<needle>{STRING})\s*+\)
    | (?P<where>^\s*+(?ai:WHERE)\s++) | (?P<end>\s*+;\s*+$)
    | "[^"]*+(?:""[^"]*+)*+"
    | \s*+(?P<word>&&|\|\|)\s*+
    | (?P<operator>!=|==|=>|=<|!|\*\*)""",
    re.VERBOSE,
)
_REQUOTED = re.compile(rf"{STRING}|(?P<before>{_COMPARISON})(?P<space>\s*+){_VALUE}")
_WRITTEN = {"!=": "<>", "==": "=", "=>": ">=", "=<": "<=", "&&": " AND ", "||": " OR ", "!": "NOT ", "**": "^"}
#: The LIKE pattern of functions that other languages have for strings.
_PATTERNS = {"contains": "%{}%", "includes": "%{}%"}
_PATTERNS |= dict.fromkeys(("startswith", "starts_with"), "{}%") | dict.fromkeys(("endswith", "ends_with"), "%{}")


def corrected(text: str) -> str | None:
    r"""Return a text as CQL2 has it; None when it has nothing of another language.

    Operators and functions of other languages, operators that are called like functions, and values in quotes other
    than single ones are rewritten. The text must be one that cannot be read as CQL2.

    >>> corrected('state == "running" && !halted')
    "state = 'running' AND NOT halted"
    >>> corrected("note.contains('10%') and price != null")
    "note LIKE '%10\\%%' and price IS NOT NULL"
    >>> corrected("price < 100")
    """
    fixed = _TOKEN.sub(_rewritten, text)
    return None if fixed == text else fixed


def requoted(text: str) -> str | None:
    """Return a text whose values in double quotes stand in single quotes; None when it has none."""
    fixed = _REQUOTED.sub(lambda found: _compared(found) if found["before"] else found[0], text)
    return None if fixed == text else fixed


def quoted_name(text: str, name: str) -> str | None:
    """Return a text in which a name that stands after a comparison is a string; None when it stands nowhere.

    >>> quoted_name("state = running AND running > 1", "running")
    "state = 'running' AND running > 1"
    """
    pattern = rf"(?P<string>{STRING})|(?P<before>(?:{_COMPARISON})\s*+){re.escape(name)}(?![\w.:(])"
    fixed = re.sub(pattern, lambda found: found["string"] or f"{found['before']}{_quoted(name)}", text)
    return None if fixed == text else fixed


def _quoted(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _rewritten(found: re.Match[str]) -> str:
    groups = found.groupdict()
    for group, rewrite in _REWRITES.items():
        if groups[group] is not None:
            return rewrite(found)
    return found[0]


def _compared(found: re.Match[str]) -> str:
    value = found["value"].replace('""', '"') if found["value"] is not None else found["ticked"]
    return f"{_WRITTEN.get(found['before'], found['before'])}{found['space']}{_quoted(value)}"


def _null(found: re.Match[str]) -> str:
    is_negated = found["negation"] or found["nothing"] in ("<>", "!=")
    space = " " if found.start() and not found.string[found.start() - 1].isspace() else ""
    return f"{space}IS {'NOT ' if is_negated else ''}NULL"


def _list(found: re.Match[str]) -> str:
    elements = re.sub(
        rf"{STRING}|{_VALUE}", lambda one: _quoted(one["value"]) if one["value"] else one[0], found["list"]
    )
    return f"{found['in']} ({elements})"


def _like(needle: str, function: str) -> str:
    text = escape_like(needle[1:-1].replace("''", "'") if needle[0] == "'" else needle[1:-1])
    return f"LIKE {_quoted(_PATTERNS[function].format(text))}"


def _called(found: re.Match[str]) -> str:
    subject, _, function = found["function"].rpartition(".")
    if function.lower() not in _PATTERNS or bool(subject) == bool(found["subject"]):
        return found[0]
    return f"{subject or found['subject']} {_like(found['needle'], function.lower())}"


def _is_null(found: re.Match[str]) -> str:
    return "IS NOT NULL" if "NOT" in found["isnull"].upper() else "IS NULL"


_REWRITES: dict[str, Callable[[re.Match[str]], str]] = {
    "broken": lambda found: f"{found['broken']}''{found['tail']}",
    "shape": lambda found: found["comma"] + found["shape"],
    "nothing": lambda found: _null(found) if found["nothing"].upper() in ("=", "==", "<>", "!=", "IS") else found[0],
    "before": _compared,
    "curly": lambda found: _quoted(found["curly"]),
    "curled": lambda found: _quoted(found["curled"]),
    "name": lambda found: '"' + found["name"].replace('"', '""') + '"',
    "in": _list,
    "folded": lambda found: f"CASEI({found['of']}){found['op']}CASEI({found['to']})",
    "call": lambda found: f"{found['first']} {found['call'].upper()} {found['second']}",
    "function": _called,
    "infix": lambda found: _like(found["part"], found["infix"].lower()),
    "regex": lambda found: "MATCHES",
    "isnull": _is_null,
    "spatial": lambda found: "S_",
    "where": lambda found: "",
    "end": lambda found: "",
    "word": lambda found: _WRITTEN[found["word"]],
    "operator": lambda found: _WRITTEN[found["operator"]],
}
