"""What a text of another language would be in CQL2: ``a == 1 && b != 2`` is ``a = 1 AND b <> 2``."""

from __future__ import annotations

import re
from collections.abc import Callable

from tamis.model.language.lexer import NAME_PART
from tamis.model.language.literals import NUMBER, STRING
from tamis.model.text.folding import escape_like

__all__ = ["corrected", "quoted_name", "requoted"]

_NAME = rf'"[^"]*+(?:""[^"]*+)*+"|{NAME_PART}++'
_COMPARISON = r"<>|<=|>=|!=|==|=>|=<|[=<>]"
_VALUE = r'"(?P<value>[^"]*+(?:""[^"]*+)*+)"'
_SHAPE = r"(?:MULTI)?(?:POINT|LINESTRING|POLYGON)\s*+\([^']*\)"
_LITERAL = rf"(?:{NUMBER}|{STRING})"
_REQUOTED = re.compile(rf"{STRING}|(?P<before>{_COMPARISON})(?P<space>\s*+){_VALUE}")
_WRITTEN = {"!=": "<>", "==": "=", "=>": ">=", "=<": "<=", "&&": " AND ", "||": " OR ", "!": "NOT ", "**": "^"}
#: The LIKE pattern of functions that other languages have for strings.
_PATTERNS = {"contains": "%{}%", "includes": "%{}%"}
_PATTERNS |= dict.fromkeys(("startswith", "starts_with", "starts", "begins"), "{}%")
_PATTERNS |= dict.fromkeys(("endswith", "ends_with", "ends"), "%{}")
_MOMENT = re.compile(r"(?P<day>[0-9]{4}-[0-9]{1,2}-[0-9]{1,2})(?:[T ](?P<clock>[0-9:.]++)(?P<zone>Z|[-+][0-9:]++)?+)?+")


def corrected(text: str) -> str | None:
    r"""Return a text as CQL2 has it; None when it has nothing of another language.

    Operators and functions of other languages, operators that are called like functions, and values in quotes other
    than single ones are rewritten. The text must be one that cannot be read as CQL2.

    >>> corrected('state == "running" && !halted')
    "state = 'running' AND NOT halted"
    >>> corrected("note.contains('10%') and price != null")
    "note LIKE '%10\\%%' and price IS NOT NULL"
    >>> corrected("price > 1,000 -- dear")
    'price > 1000'
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


_Found = re.Match[str]


def _rewritten(found: _Found) -> str:
    return _REWRITES[found.lastgroup or ""](found)


def _quoted(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _as_it_is(found: _Found) -> str:
    return found[0]


def _compared(found: _Found) -> str:
    value = found["value"].replace('""', '"') if found["value"] is not None else found["ticked"]
    return f"{_WRITTEN.get(found['before'], found['before'])}{found['space']}{_quoted(value)}"


def _null(found: _Found) -> str:
    if found["is"].upper() not in ("=", "==", "<>", "!=", "IS"):
        return found[0]
    is_negated = found["negation"] or found["is"] in ("<>", "!=")
    space = " " if found.start() and not found.string[found.start() - 1].isspace() else ""
    return f"{space}IS {'NOT ' if is_negated else ''}NULL"


def _elements(text: str) -> str:
    """Return the values of a list with single quotes around the strings."""
    return re.sub(rf"{STRING}|{_VALUE}", lambda found: _quoted(found["value"]) if found["value"] else found[0], text)


def _like(needle: str, function: str) -> str:
    text = escape_like(needle[1:-1].replace("''", "'") if needle[0] == "'" else needle[1:-1])
    return f"LIKE {_quoted(_PATTERNS[function.lower()].format(text))}"


def _called(found: _Found) -> str:
    subject, _, function = found["called"].rpartition(".")
    if function.lower() not in _PATTERNS or bool(subject) == bool(found["subject"]):
        return found[0]
    return f"{subject or found['subject']} {_like(found['needle'], function)}"


def _is_null(found: _Found) -> str:
    return "IS NOT NULL" if "NOT" in found[0].upper() else "IS NULL"


def _moment(written: str) -> str:
    """Return a day or a moment as a literal; a clock without a zone is taken for UTC."""
    found = _MOMENT.fullmatch(written)
    if found is None:
        return _quoted(written)
    year, month, day = found["day"].split("-")
    date = f"{year}-{int(month):02}-{int(day):02}"
    return f"TIMESTAMP('{date}T{found['clock']}{found['zone'] or 'Z'}')" if found["clock"] else f"DATE('{date}')"


def _temporal(found: _Found) -> str:
    start, end = (found[side] and found[side][1:-1] for side in ("begin", "finish"))
    when = _moment(start) if end is None else f"INTERVAL('{start}', '{end}')"
    return f"{found['relation']} {when})"


#: Forms of other languages by name: the pattern that finds one, and what it is in CQL2. The first that fits is used.
_RULES: dict[str, tuple[str, Callable[[_Found], str]]] = {
    "broken": (
        r"(?P<head>'[^']*+)'(?P<tail>[^\W\d_][^'\s]*+')(?=\s*+(?:$|\)|(?i:AND|OR)\b))",
        lambda found: f"{found['head']}''{found['tail']}",
    ),
    "shape": (
        rf"(?P<comma>,\s*+)'(?P<wkt>(?i:{_SHAPE}))'",
        lambda found: found["comma"] + found["wkt"],
    ),
    "interval": (
        rf"""\b(?P<relation>(?ai:T_[A-Z]++)\s*+\(\s*+(?:{_NAME})\s*+,)\s*+(?P<begin>{STRING})
        (?:\s*+,\s*+(?P<finish>{STRING}))?+\s*+\)""",
        _temporal,
    ),
    "set": (
        rf"\b(?P<test>(?ai:A_[A-Z]++)\s*+\(\s*+(?:{_NAME})\s*+,\s*+)(?P<element>{STRING})\s*+\)",
        lambda found: f"{found['test']}({found['element']}))",
    ),
    "network": (
        rf"(?P<address>{_NAME})\s*+<<=?\s*+(?P<range>{STRING})",
        lambda found: f"IP_WITHIN({found['address']}, {found['range']})",
    ),
    "list": (
        rf"(?P<repeated>{_NAME})\s*+==?\s*+\[(?P<elements>[^\[\]()]*+)\]",
        lambda found: f"A_EQUALS({found['repeated']}, ({_elements(found['elements'])}))",
    ),
    "string": (STRING, _as_it_is),
    "null": (
        rf"(?P<is>{_COMPARISON}|(?ai:\bIS\b))\s*+(?P<negation>(?ai:NOT\b))?\s*+(?ai:NULL|NONE|NIL)\b",
        _null,
    ),
    "grouped": (
        rf"(?P<bound>(?:{_COMPARISON})\s*+[0-9]{{1,3}}(?:[,_][0-9]{{3}})++)(?![0-9,_])",
        lambda found: re.sub("[,_]", "", found["bound"]),
    ),
    "quoted": (
        rf"(?P<before>{_COMPARISON}|(?ai:\bI?LIKE|\bMATCHES))(?P<space>\s*+)(?:{_VALUE}|`(?P<ticked>[^`]*+)`)",
        _compared,
    ),
    "unquoted": (
        r"(?P<like>(?ai:\bI?LIKE|\bMATCHES)\s++)(?!(?ai:NULL)\b)(?P<pattern>[^\s'\"()]++)(?=\s*+$|\s++(?ai:AND|OR)\b)",
        lambda found: found["like"] + _quoted(found["pattern"]),
    ),
    "all_strings": (
        r"(?<![^\s(])\*(?=\s++(?ai:NOT\s++)?+(?ai:I?LIKE|MATCHES)\b)",
        lambda found: '"*"',
    ),
    "curly": (r"[“”„«](?P<inside>[^“”„«»]*+)[“”»]", lambda found: _quoted(found["inside"])),
    "curled": (r"[‘’‚](?P<within>[^‘’‚]*+)[‘’]", lambda found: _quoted(found["within"])),
    "name": (r"`(?P<ticks>[^`]*+)`", lambda found: '"' + found["ticks"].replace('"', '""') + '"'),
    "moment": (rf"(?<![\w.]){_MOMENT.pattern}", lambda found: _moment(found[0])),
    "comment": (r"\s++--(?!\S)[^\n]*+ | \s*+/\*.*?\*/ | ^\s*+\#[^\n]*+\n", lambda found: ""),
    "minus": (r"--", lambda found: "- -"),
    "distance": (
        r"(?P<far>,\s*+[0-9.]++)\s*+(?P<unit>(?ai:km|m))(?=\s*+\))",
        lambda found: f"{found['far']}, '{found['unit'].lower()}'",
    ),
    "in": (
        r"(?P<member>(?ai:\bIN))\s*+[\[{](?P<members>[^\[\]{}()]*+)[\]}]",
        lambda found: f"{found['member']} ({_elements(found['members'])})",
    ),
    "loose": (
        rf"\b(?P<into>(?ai:IN))\s++(?P<values>{_LITERAL}(?:\s*+,\s*+{_LITERAL})*+)",
        lambda found: f"{found['into']} ({found['values']})",
    ),
    "folded": (
        rf"\b(?ai:LOWER|UPPER|LCASE|UCASE)\s*+\(\s*+(?P<of>{_NAME})\s*+\)(?P<op>\s*+(?:{_COMPARISON})\s*+)(?P<to>{STRING})",
        lambda found: f"CASEI({found['of']}){found['op']}CASEI({found['to']})",
    ),
    "operation": (
        rf"\b(?P<call>(?ai:MATCHES|I?LIKE))\s*+\(\s*+(?P<first>{_NAME})\s*+,\s*+(?P<second>{STRING})\s*+\)",
        lambda found: f"{found['first']} {found['call'].upper()} {found['second']}",
    ),
    "infix": (
        rf"""\b(?P<word>(?ai:CONTAINS|INCLUDES|STARTSWITH|STARTS_WITH|ENDSWITH|ENDS_WITH
          |(?:STARTS|BEGINS|ENDS)(?=\s++WITH\b)))(?:\s++(?ai:WITH)\b)?+\s*+(?P<part>{STRING}|"[^"]*+")""",
        lambda found: _like(found["part"], found["word"]),
    ),
    "between": (r"\b(?ai:IS)\s++(?P<range_test>(?ai:(?:NOT\s++)?+BETWEEN))\b", lambda found: found["range_test"]),
    "range_comma": (
        rf"\b(?P<low>(?ai:BETWEEN)\s++{_LITERAL})\s*+,\s*+",
        lambda found: f"{found['low']} AND ",
    ),
    "regex": (r"(?:=~|~[*=]?|(?ai:\b(?:REGEXP|RLIKE|REGEX)\b))(?=\s*+')", lambda found: "MATCHES"),
    "isnull": (r"\b(?ai:IS_?(?:NOT_?)?NULL|NOTNULL|NOT\s++NULL)\b", _is_null),
    "spatial": (r"\b(?ai:ST_)(?=[A-Za-z]++\s*+\()", lambda found: "S_"),
    "function": (
        rf"\b(?P<called>{NAME_PART}++)\(\s*+(?:(?P<subject>{_NAME})\s*+,\s*+)?(?P<needle>{STRING})\s*+\)",
        _called,
    ),
    "where": (r"^\s*+(?ai:WHERE)\s++", lambda found: ""),
    "end": (r"\s*+;\s*+$", lambda found: ""),
    "quoted_name": (r'"[^"]*+(?:""[^"]*+)*+"', _as_it_is),
    "joint": (r"\s*+(?P<logic>&&|\|\|)\s*+", lambda found: _WRITTEN[found["logic"]]),
    "operator": (r"!=|==|=>|=<|!|\*\*", lambda found: _WRITTEN[found[0]]),
}
_REWRITES: dict[str, Callable[[_Found], str]] = {name: rewrite for name, (_, rewrite) in _RULES.items()}
_TOKEN = re.compile("|".join(f"(?P<{name}>{rule})" for name, (rule, _) in _RULES.items()), re.VERBOSE | re.DOTALL)
