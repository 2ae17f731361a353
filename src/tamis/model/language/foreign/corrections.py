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
    fixed = _REQUOTED.sub(lambda match: _compared(match) if match["before"] else match[0], text)
    return None if fixed == text else fixed


def quoted_name(text: str, name: str) -> str | None:
    """Return a text in which a name that stands after a comparison is a string; None when it stands nowhere.

    >>> quoted_name("state = running AND running > 1", "running")
    "state = 'running' AND running > 1"
    """
    pattern = rf"(?P<string>{STRING})|(?P<before>(?:{_COMPARISON})\s*+){re.escape(name)}(?![\w.:(])"
    fixed = re.sub(pattern, lambda match: match["string"] or f"{match['before']}{_quoted(name)}", text)
    return None if fixed == text else fixed


_Match = re.Match[str]


def _rewritten(match: _Match) -> str:
    return _REWRITES[match.lastgroup or ""](match)


def _quoted(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _as_it_is(match: _Match) -> str:
    return match[0]


def _compared(match: _Match) -> str:
    value = match["value"].replace('""', '"') if match["value"] is not None else match["ticked"]
    return f"{_WRITTEN.get(match['before'], match['before'])}{match['space']}{_quoted(value)}"


def _null(match: _Match) -> str:
    if match["is"].upper() not in ("=", "==", "<>", "!=", "IS"):
        return match[0]
    is_negated = match["negation"] or match["is"] in ("<>", "!=")
    space = " " if match.start() and not match.string[match.start() - 1].isspace() else ""
    return f"{space}IS {'NOT ' if is_negated else ''}NULL"


def _elements(text: str) -> str:
    """Return the values of a list with single quotes around the strings."""
    return re.sub(rf"{STRING}|{_VALUE}", lambda match: _quoted(match["value"]) if match["value"] else match[0], text)


def _like(needle: str, function: str) -> str:
    text = escape_like(needle[1:-1].replace("''", "'") if needle[0] == "'" else needle[1:-1])
    return f"LIKE {_quoted(_PATTERNS[function.lower()].format(text))}"


def _called(match: _Match) -> str:
    subject, _, function = match["called"].rpartition(".")
    if function.lower() not in _PATTERNS or bool(subject) == bool(match["subject"]):
        return match[0]
    return f"{subject or match['subject']} {_like(match['needle'], function)}"


def _is_null(match: _Match) -> str:
    return "IS NOT NULL" if "NOT" in match[0].upper() else "IS NULL"


def _moment(written: str) -> str:
    """Return a day or a moment as a literal; a clock without a zone is taken for UTC."""
    match = _MOMENT.fullmatch(written)
    if match is None:
        return _quoted(written)
    year, month, day = match["day"].split("-")
    date = f"{year}-{int(month):02}-{int(day):02}"
    return f"TIMESTAMP('{date}T{match['clock']}{match['zone'] or 'Z'}')" if match["clock"] else f"DATE('{date}')"


def _temporal(match: _Match) -> str:
    start, end = (match[side] and match[side][1:-1] for side in ("begin", "finish"))
    when = _moment(start) if end is None else f"INTERVAL('{start}', '{end}')"
    return f"{match['relation']} {when})"


#: Forms of other languages by name: the pattern that finds one, and what it is in CQL2. The first that fits is used.
_RULES: dict[str, tuple[str, Callable[[_Match], str]]] = {
    "broken": (
        r"(?P<head>'[^']*+)'(?P<tail>[^\W\d_][^'\s]*+')(?=\s*+(?:$|\)|(?i:AND|OR)\b))",
        lambda match: f"{match['head']}''{match['tail']}",
    ),
    "shape": (
        rf"(?P<comma>,\s*+)'(?P<wkt>(?i:{_SHAPE}))'",
        lambda match: match["comma"] + match["wkt"],
    ),
    "interval": (
        rf"""\b(?P<relation>(?ai:T_[A-Z]++)\s*+\(\s*+(?:{_NAME})\s*+,)\s*+(?P<begin>{STRING})
        (?:\s*+,\s*+(?P<finish>{STRING}))?+\s*+\)""",
        _temporal,
    ),
    "set": (
        rf"\b(?P<test>(?ai:A_[A-Z]++)\s*+\(\s*+(?:{_NAME})\s*+,\s*+)(?P<element>{STRING})\s*+\)",
        lambda match: f"{match['test']}({match['element']}))",
    ),
    "network": (
        rf"(?P<address>{_NAME})\s*+<<=?\s*+(?P<range>{STRING})",
        lambda match: f"IP_WITHIN({match['address']}, {match['range']})",
    ),
    "list": (
        rf"(?P<repeated>{_NAME})\s*+==?\s*+\[(?P<elements>[^\[\]()]*+)\]",
        lambda match: f"A_EQUALS({match['repeated']}, ({_elements(match['elements'])}))",
    ),
    "string": (STRING, _as_it_is),
    "null": (
        rf"(?P<is>{_COMPARISON}|(?ai:\bIS\b))\s*+(?P<negation>(?ai:NOT\b))?\s*+(?ai:NULL|NONE|NIL)\b",
        _null,
    ),
    "grouped": (
        rf"(?P<bound>(?:{_COMPARISON})\s*+[0-9]{{1,3}}(?:[,_][0-9]{{3}})++)(?![0-9,_])",
        lambda match: re.sub("[,_]", "", match["bound"]),
    ),
    "quoted": (
        rf"(?P<before>{_COMPARISON}|(?ai:\bI?LIKE|\bMATCHES))(?P<space>\s*+)(?:{_VALUE}|`(?P<ticked>[^`]*+)`)",
        _compared,
    ),
    "unquoted": (
        r"(?P<like>(?ai:\bI?LIKE|\bMATCHES)\s++)(?!(?ai:NULL)\b)(?P<pattern>[^\s'\"()]++)(?=\s*+$|\s++(?ai:AND|OR)\b)",
        lambda match: match["like"] + _quoted(match["pattern"]),
    ),
    "all_strings": (
        r"(?<![^\s(])\*(?=\s++(?ai:NOT\s++)?+(?ai:I?LIKE|MATCHES)\b)",
        lambda match: '"*"',
    ),
    "curly": (r"[“”„«](?P<inside>[^“”„«»]*+)[“”»]", lambda match: _quoted(match["inside"])),
    "curled": (r"[‘’‚](?P<within>[^‘’‚]*+)[‘’]", lambda match: _quoted(match["within"])),
    "name": (r"`(?P<ticks>[^`]*+)`", lambda match: '"' + match["ticks"].replace('"', '""') + '"'),
    "moment": (rf"(?<![\w.]){_MOMENT.pattern}", lambda match: _moment(match[0])),
    "comment": (r"\s++--(?!\S)[^\n]*+ | \s*+/\*.*?\*/ | ^\s*+\#[^\n]*+\n", lambda match: ""),
    "minus": (r"--", lambda match: "- -"),
    "distance": (
        r"(?P<far>,\s*+[0-9.]++)\s*+(?P<unit>(?ai:km|m))(?=\s*+\))",
        lambda match: f"{match['far']}, '{match['unit'].lower()}'",
    ),
    "in": (
        r"(?P<member>(?ai:\bIN))\s*+[\[{](?P<members>[^\[\]{}()]*+)[\]}]",
        lambda match: f"{match['member']} ({_elements(match['members'])})",
    ),
    "loose": (
        rf"\b(?P<into>(?ai:IN))\s++(?P<values>{_LITERAL}(?:\s*+,\s*+{_LITERAL})*+)",
        lambda match: f"{match['into']} ({match['values']})",
    ),
    "folded": (
        rf"\b(?ai:LOWER|UPPER|LCASE|UCASE)\s*+\(\s*+(?P<of>{_NAME})\s*+\)(?P<op>\s*+(?:{_COMPARISON})\s*+)(?P<to>{STRING})",
        lambda match: f"CASEI({match['of']}){match['op']}CASEI({match['to']})",
    ),
    "operation": (
        rf"\b(?P<call>(?ai:MATCHES|I?LIKE))\s*+\(\s*+(?P<first>{_NAME})\s*+,\s*+(?P<second>{STRING})\s*+\)",
        lambda match: f"{match['first']} {match['call'].upper()} {match['second']}",
    ),
    "infix": (
        rf"""\b(?P<word>(?ai:CONTAINS|INCLUDES|STARTSWITH|STARTS_WITH|ENDSWITH|ENDS_WITH
          |(?:STARTS|BEGINS|ENDS)(?=\s++WITH\b)))(?:\s++(?ai:WITH)\b)?+\s*+(?P<part>{STRING}|"[^"]*+")""",
        lambda match: _like(match["part"], match["word"]),
    ),
    "between": (r"\b(?ai:IS)\s++(?P<range_test>(?ai:(?:NOT\s++)?+BETWEEN))\b", lambda match: match["range_test"]),
    "range_comma": (
        rf"\b(?P<low>(?ai:BETWEEN)\s++{_LITERAL})\s*+,\s*+",
        lambda match: f"{match['low']} AND ",
    ),
    "regex": (r"(?:=~|~[*=]?|(?ai:\b(?:REGEXP|RLIKE|REGEX)\b))(?=\s*+')", lambda match: "MATCHES"),
    "isnull": (r"\b(?ai:IS_?(?:NOT_?)?NULL|NOTNULL|NOT\s++NULL)\b", _is_null),
    "spatial": (r"\b(?ai:ST_)(?=[A-Za-z]++\s*+\()", lambda match: "S_"),
    "function": (
        rf"\b(?P<called>{NAME_PART}++)\(\s*+(?:(?P<subject>{_NAME})\s*+,\s*+)?(?P<needle>{STRING})\s*+\)",
        _called,
    ),
    "where": (r"^\s*+(?ai:WHERE)\s++", lambda match: ""),
    "end": (r"\s*+;\s*+$", lambda match: ""),
    "quoted_name": (r'"[^"]*+(?:""[^"]*+)*+"', _as_it_is),
    "joint": (r"\s*+(?P<logic>&&|\|\|)\s*+", lambda match: _WRITTEN[match["logic"]]),
    "operator": (r"!=|==|=>|=<|!|\*\*", lambda match: _WRITTEN[match[0]]),
}
_REWRITES: dict[str, Callable[[_Match], str]] = {name: rewrite for name, (_, rewrite) in _RULES.items()}
_TOKEN = re.compile("|".join(f"(?P<{name}>{rule})" for name, (rule, _) in _RULES.items()), re.VERBOSE | re.DOTALL)
