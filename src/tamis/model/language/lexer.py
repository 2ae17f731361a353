"""Splits text into pieces: the terminals of ``grammar.lark``, and the vocabulary of the language.

One pattern is matched again and again; the name of the group that matched last says what was found and
which *reader* makes a piece of it. lark's parser costs a microsecond or more per token, so that pieces
are as large as they can be: a whole comparison, a whole list of numbers, a whole geometry. Where such a
large piece does not fit, smaller ones do, and the parser finds out what is wrong.

Nothing here backtracks: every repetition is possessive, so a text is read in linear time (promise
S16). Keywords are ASCII and of either case; a Turkish dotless i does not make an IN.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from lark.lexer import Lexer, LexerState

from tamis.model.derived.functions import find_function, function_names
from tamis.model.derived.spatial_functions import SPATIAL_FUNCTIONS
from tamis.model.language import limits, literals
from tamis.model.language.functions.suggestions import unsupported
from tamis.model.language.functions.temporal import CLOCK_FUNCTIONS, TEMPORAL_FUNCTIONS
from tamis.model.language.literals import NUMBER, STRING, MeaningError, Misreading
from tamis.model.language.nodes import Between, Compare, IsIn, IsLike, IsNull
from tamis.model.text.folding import Fold

__all__ = [
    "ARRAY_FUNCTIONS",
    "BEFORE_STRINGS",
    "FOLDS",
    "FUNCTIONS",
    "NAME_PART",
    "RESERVED",
    "TURNED",
    "Piece",
    "Source",
    "TextLexer",
    "check_paths",
    "is_plain_name",
]

#: Words that need double quotes when an attribute is called so.
RESERVED = frozenset({"AND", "OR", "NOT", "BETWEEN", "IN", "LIKE", "IS", "NULL", "TRUE", "FALSE"})

#: What other languages write for values that no number of a filter has; an attribute called so needs double quotes.
_NO_VALUES = frozenset({"NAN", "INF", "INFINITY"})
_NO_NAMES = RESERVED | _NO_VALUES

#: Words that are operators only before a string: an attribute may be called so without quotes.
BEFORE_STRINGS = frozenset({"ILIKE", "MATCHES"})

#: Functions of strings, and what they ignore.
FOLDS = {"CASEI": Fold.CASE, "ACCENTI": Fold.ACCENTS}

#: Functions of repeated attributes.
ARRAY_FUNCTIONS = ("A_CONTAINS", "A_CONTAINEDBY", "A_EQUALS", "A_OVERLAPS")

#: Everything that is called like a function, the OGC's own first.
FUNCTIONS = (
    *FOLDS,
    *sorted([*SPATIAL_FUNCTIONS, "S_DWITHIN"], key=lambda name: (name[:2] != "S_", name)),
    *("V_WITHIN", "V_COSINE"),
    *sorted(TEMPORAL_FUNCTIONS),
    *CLOCK_FUNCTIONS,
    "IP_WITHIN",
    *ARRAY_FUNCTIONS,
)

#: What ``x OP y`` and ``F(x, y)`` become when the sides are exchanged; those not named stay.
TURNED = {
    "<": ">",
    "<=": ">=",
    ">": "<",
    ">=": "<=",
    "S_WITHIN": "S_CONTAINS",
    "S_CONTAINS": "S_WITHIN",
    "RCC_INSIDE": "RCC_CONTAINS",
    "RCC_CONTAINS": "RCC_INSIDE",
    "RCC_COVERS": "RCC_COVERED_BY",
    "RCC_COVERED_BY": "RCC_COVERS",
    "A_CONTAINS": "A_CONTAINEDBY",
    "A_CONTAINEDBY": "A_CONTAINS",
}

#: Functions, and the terminals of the grammar that they are.
_OTHER_CALLS = {
    "S_DWITHIN": "DWITHIN",
    "INTERVAL": "INTERVAL",
    "IP_WITHIN": "IP_WITHIN",
    **dict.fromkeys(TEMPORAL_FUNCTIONS, "TEMPORAL"),
    **dict.fromkeys(CLOCK_FUNCTIONS, "CLOCK"),
    **dict.fromkeys(ARRAY_FUNCTIONS, "ARRAY"),
}

_WKT_KINDS = frozenset(
    {"POINT", "LINESTRING", "POLYGON", "LINEARRING", "GEOMETRYCOLLECTION"}
    | {"MULTIPOINT", "MULTILINESTRING", "MULTIPOLYGON"}
)
#: Operators of arithmetic, and the terminals of the grammar that they are; DIV is the only word among them.
_ARITHMETIC = {"+": "PLUS", "-": "MINUS", "*": "TIMES", "/": "TIMES", "%": "TIMES", "^": "CARET"}
_ARITHMETIC_TYPES = frozenset(_ARITHMETIC.values())
#: The last piece of something that can be calculated with: a sign behind it is an operator.
_OPERAND_ENDS = frozenset({"NAME", "NUMBER", "RPAR", "STRING", "INSTANT", "DAY"})
#: Behind these a name cannot begin a comparison: it is an operand, or DIV.
_INSIDE = _ARITHMETIC_TYPES | _OPERAND_ENDS
#: Misspellings of other languages and what they are called here.
_MISSPELT = {"!=": "<>", "==": "=", "=>": ">=", "=<": "<=", "&&": "AND", "||": "OR", "!": "NOT"}

# Letters as in the CQL2 grammar (which took them from XML), without the space U+1680 among them.
_LETTERS = (
    r"A-Za-z_\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u167f\u1681-\u1fff\u200c\u200d\u2070-\u218f"
    r"\u2c00-\u2fef\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff"
)
#: A character of a name, behind its first.
NAME_PART = rf"[{_LETTERS}0-9.:\u00b7\u0300-\u036f\u203f\u2040]"
_NAME = rf"[{_LETTERS}]{NAME_PART}*+"
_END = rf"(?!{NAME_PART})"
#: No operator follows, so a comparison ends here.
_ALONE = rf"(?!\s*+(?:[-+*/%^]|(?ai:DIV){_END}))"
_NUMBERS = rf"\s*+{NUMBER}\s*+(?:,\s*+{NUMBER}\s*+)*+"

_PIECE = re.compile(
    rf"""\s*+(?:
    (?P<joint>(?ai:AND|OR|NOT)){_END}
    | (?P<word>{_NAME})
        (?: \s*+ (?P<operator_here><>|<=|>=|[=<>]) \s*+
            (?: (?P<integer>[-+]?+[0-9]++){_END}{_ALONE}
              | (?P<decimal>{NUMBER}){_END}{_ALONE}
              | '(?P<simple_string>[^']*+)'(?!')
              | (?P<boolean>(?ai:TRUE|FALSE)){_END} )
          | (?P<call>\s*+(?=\())
          | \s++(?ai:BETWEEN)\s++(?P<low>{NUMBER}){_END}\s++(?ai:AND)\s++(?P<high>{NUMBER}){_END}{_ALONE}
          | \s++(?P<in_here>(?ai:IN))\s*+(?=\()
          | \s++(?ai:LIKE)\s*+'(?P<pattern>[^']*+)'(?!')
          | \s++(?P<is_null>(?ai:IS)\s++(?:(?ai:NOT)\s++)?+(?ai:NULL)){_END} )?+
    | (?P<vector>\({_NUMBERS}\)) | (?P<open>\() | (?P<close>\)) | (?P<comma>,)
    | (?P<number>{NUMBER}{_END})
    | (?P<string>{STRING})
    | (?P<arithmetic>[-+*/%^])
    | (?P<misspelt>!=|==|=>|=<|&&|\|\||!)
    | (?P<operator><>|<=|>=|[=<>])
    | (?P<quoted_name>"[^"]*+(?:""[^"]*+)*+")
    | (?P<object>\{{[^{{}}]*+\}})
    | (?P<unknown>.) )""",
    re.VERBOSE | re.DOTALL,
)
_IN_LIST = re.compile(rf"\(({_NUMBERS})\)|\((\s*+{STRING}\s*+(?:,\s*+{STRING}\s*+)*+)\)")
_NUMBER = re.compile(NUMBER)
_VECTOR = re.compile(rf"\(({_NUMBERS})\)")
_QUOTED_ARGUMENT = re.compile(rf"\(\s*+({STRING})\s*+\)")
_STRING_FOLLOWS = re.compile(r"\s*+'")
_WKT_BODY = re.compile(r"\s*+(?:(?ai:ZM?|M)\s*+)?+(?:(?=\()|(?ai:EMPTY)\b)")
_PLAIN_NAME = re.compile(_NAME)
_EMPTY_STEP = re.compile(r"\.(?=\.|$)")
_QUOTED_OR_NAME = re.compile(rf'{STRING}|"[^"]*+"|(?P<name>{_NAME})')
#: A day, and maybe a time of it, that would be read as a subtraction.
_BARE_MOMENT = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?![0-9.])")


class Piece:
    """A part of the source: a token, or the result of parsing several tokens.

    ``value`` is the literal, name or node; while a chain of ANDs or ORs grows it is the list of its parts.
    ``depth`` counts the parentheses and NOTs inside. The other names are what lark asks of a token.
    """

    __slots__ = ("depth", "end", "start", "type", "value")
    start_pos = end_pos = line = column = end_line = end_column = None

    def __init__(self, type: str, value: Any, start: int, end: int, depth: int = 0) -> None:
        self.type = type
        self.value = value
        self.start = start
        self.end = end
        self.depth = depth


class Source:
    """A text in the lexer, with the budget that it has used.

    ``stop`` is the end without trailing space; the text may be read up to ``allowed``, which moves on as
    geometries, vectors and lists turn up that do not count as text. ``previous`` is the type of the last piece.
    """

    __slots__ = ("allowed", "budget", "previous", "stop", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.stop = len(text.rstrip())
        self.allowed = min(self.stop, limits.TEXT.most)
        self.budget = limits.LimitBudget()
        self.previous = ""

    def bulky(self, piece: Piece) -> Piece:
        """Return the piece, and do not count its characters."""
        self.allowed = min(self.stop, self.allowed + piece.end - piece.start)
        return piece


class TextLexer(Lexer):
    """The lexer that lark calls for tokens; its "text" is a `Source`."""

    __future_interface__ = 2

    def __init__(self, conf: object) -> None:
        pass

    def lex(self, lexer_state: LexerState, parser_state: Any) -> Iterator[Any]:
        """Yield the pieces of a source."""
        source: Source = lexer_state.text  # type: ignore[assignment]
        match, text, position = _PIECE.match, source.text, 0
        while position < source.allowed:
            piece_match = match(text, position)
            assert piece_match is not None  # the last alternative takes any character
            piece = _READERS[piece_match.lastgroup](source, piece_match)  # type: ignore[index]
            position, source.previous = piece.end, piece.type
            yield piece
        if source.allowed < source.stop:
            limits.TEXT.check(limits.TEXT.most + source.stop - source.allowed)


def is_plain_name(name: str) -> bool:
    """Whether an attribute's name needs no double quotes.

    >>> is_plain_name("größe.x"), is_plain_name("in"), is_plain_name("NaN"), is_plain_name("2nd")
    (True, False, False, False)
    """
    return _PLAIN_NAME.fullmatch(name) is not None and name.upper() not in _NO_NAMES and not _EMPTY_STEP.search(name)


def check_paths(text: str) -> None:
    """Raise `Misreading` at a path without quotes that has an empty step, as in ``detail..state``."""
    for quoted_or_name in _QUOTED_OR_NAME.finditer(text):
        if quoted_or_name["name"] and (step := _EMPTY_STEP.search(quoted_or_name["name"])):
            raise Misreading(quoted_or_name.start() + step.end(), "a name after the dot")


_Match = re.Match[str]


def _joint(source: Source, match: _Match) -> Piece:
    """Read AND, OR or NOT, which are most words of most texts."""
    start, end = match.span(1)
    return Piece(match[1].upper(), None, start, end)


def _comparison(convert: Callable[[str, int], Any], source: Source, match: _Match) -> Piece:
    """Read ``name operator literal`` at one go."""
    name, operator, literal = match.group(2, 3, match.lastindex or 0)
    start, end = match.start(2), match.end()
    if source.previous in _INSIDE or (name.upper() in _NO_NAMES and name.isascii()):
        return _word(source, match)
    value = convert(literal, match.start(match.lastindex or 0))
    return Piece("COMPARISON", Compare(name, operator, value, (start, end)), start, end)


def _between(source: Source, match: _Match) -> Piece:
    """Read ``name BETWEEN number AND number`` at one go."""
    name, start, end = match["word"], match.start("word"), match.end()
    if _is_no_attribute(name, source):
        return _word(source, match)
    low, high = (literals.number(match[part], match.start(part)) for part in ("low", "high"))
    return Piece("COMPARISON", Between(name, low, high, False, (start, end)), start, end)


def _is_null(source: Source, match: _Match) -> Piece:
    """Read ``name IS [NOT] NULL`` at one go."""
    name, start, end = match["word"], match.start("word"), match.end()
    if _is_no_attribute(name, source):
        return _word(source, match)
    negated = "T" in match["is_null"].upper()  # of the three words only NOT has a T
    return Piece("COMPARISON", IsNull(name, negated, (start, end)), start, end)


def _is_in(source: Source, match: _Match) -> Piece:
    """Read ``name IN (values)`` at one go."""
    name, start = match["word"], match.start("word")
    values = _IN_LIST.match(source.text, match.end())
    if values is None or _is_no_attribute(name, source):
        return _word(source, match)
    members = _in_list(source, match.start("in_here"), values)
    return Piece("COMPARISON", IsIn(name, members.value, False, (start, members.end)), start, members.end)


def _is_like(source: Source, match: _Match) -> Piece:
    """Read ``name LIKE 'pattern'`` at one go."""
    name, start, end = match["word"], match.start("word"), match.end()
    if _is_no_attribute(name, source):
        return _word(source, match)
    return Piece("COMPARISON", IsLike(name, match["pattern"], False, (start, end)), start, end)


def _is_no_attribute(word: str, source: Source) -> bool:
    """Whether a word cannot begin a condition: it is reserved, or an operand of what stands before it."""
    return source.previous in _INSIDE or (word.upper() in _NO_NAMES and word.isascii())


def _word(source: Source, match: _Match) -> Piece:
    """Read a keyword or a name; only the word itself, even if more was matched."""
    word, (start, end) = match["word"], match.span("word")
    keyword = word.upper() if word.isascii() else word
    if keyword in RESERVED:
        is_value = keyword in ("TRUE", "FALSE")
        return Piece("BOOLEAN", keyword == "TRUE", start, end) if is_value else Piece(keyword, None, start, end)
    if keyword in _NO_VALUES:
        problem = "expected a number; NaN and infinities are not values"
        raise MeaningError(f"{problem} (an attribute called {word} stands in double quotes)", start, word)
    if keyword == "DIV" and source.previous in _OPERAND_ENDS:
        return Piece("TIMES", "div", start, end)
    if keyword in BEFORE_STRINGS and _STRING_FOLLOWS.match(source.text, end):
        return Piece(keyword, None, start, end)
    if keyword in _WKT_KINDS and (body := _WKT_BODY.match(source.text, end)):
        return _wkt(source, start, body)
    return Piece("NAME", word, start, end)


def _call(source: Source, match: _Match) -> Piece:
    """Read a word before a parenthesis: a keyword, a literal that looks like a call, or a function."""
    word, (start, end) = match["word"], match.span("word")
    keyword = word.upper() if word.isascii() else word
    if keyword in SPATIAL_FUNCTIONS:
        return Piece("SPATIAL", keyword, start, end)
    if keyword == "IN" and (values := _IN_LIST.match(source.text, match.end())):
        return _in_list(source, start, values)
    if keyword in RESERVED or keyword in _WKT_KINDS:
        return _word(source, match)
    if keyword in FOLDS:
        return Piece("FOLD", FOLDS[keyword], start, end)
    if keyword in ("V_WITHIN", "V_COSINE"):
        return Piece(keyword, keyword, start, end)
    if keyword in _OTHER_CALLS:
        return Piece(_OTHER_CALLS[keyword], keyword, start, end)
    if keyword in ("TIMESTAMP", "DATE"):
        return _instant(source, keyword, start, match.end())
    if keyword == "BBOX":
        return _bbox(source, start, match.end())
    if find_function(word) is not None:
        return Piece("FUNCTION", word, start, end)
    if keyword == "DIV" and source.previous in _OPERAND_ENDS:
        return _word(source, match)
    raise MeaningError(f"the function {unsupported(keyword, (*FUNCTIONS, *function_names()))}", start, word)


def _in_list(source: Source, start: int, match: _Match) -> Piece:
    body = match[match.lastindex or 0]
    if match.lastindex == 1:
        source.budget.spend(limits.IN_VALUES, body.count(",") + 1)
        values: tuple[Any, ...] = literals.numbers(body, match.start(1))
    else:
        values = literals.strings(body)
        source.budget.spend(limits.IN_VALUES, len(values))
    return source.bulky(Piece("IN_LIST", values, start, match.end()))


def _vector(source: Source, match: _Match) -> Piece:
    start, end = match.span("vector")
    body = source.text[start + 1 : end - 1]
    if source.previous == "FUNCTION" or "," not in body:  # arguments, or a number in parentheses
        return Piece("LPAR", None, start, start + 1)
    source.budget.spend(limits.COORDINATES, body.count(",") + 1)
    return source.bulky(Piece("VECTOR", literals.coordinates(body, start + 1), start, end))


def _instant(source: Source, kind: str, start: int, position: int) -> Piece:
    match = _QUOTED_ARGUMENT.match(source.text, position)
    if match is None:
        example = "('2026-01-31T12:00:00Z')" if kind == "TIMESTAMP" else "('2026-01-31')"
        raise Misreading(position, example)
    value = literals.instant(kind, literals.unquote(match[1]), match.start(1))
    return Piece("INSTANT" if kind == "TIMESTAMP" else "DAY", value, start, match.end())


def _bbox(source: Source, start: int, position: int) -> Piece:
    match = _VECTOR.match(source.text, position)
    if match is None:
        raise Misreading(position, "four numbers in parentheses, (min x, min y, max x, max y)")
    corners = literals.numbers(match[1], match.start(1)) if match[1].count(",") < 6 else ()
    return Piece("GEOMETRY", literals.bbox(corners, start), start, match.end())


def _wkt(source: Source, start: int, body: _Match) -> Piece:
    end: int | None = body.end()
    if source.text[body.end() - 1 : body.end()] not in ("Y", "y"):  # not EMPTY: a parenthesis follows
        end = literals.closing_parenthesis(source.text, body.end(), source.stop)
    if end is None:
        raise Misreading(body.end(), "a closing ')' for the geometry that starts here")
    value = literals.wkt(source.text[start:end], start, source.budget)
    return source.bulky(Piece("GEOMETRY", value, start, end))


def _object(source: Source, match: _Match) -> Piece:
    start = match.start("object")
    try:
        document = literals.strict_json(match["object"])
    except Misreading as error:
        raise Misreading(start + error.position, error.expected) from None
    except MeaningError as error:
        raise MeaningError(error.problem, start) from None
    assert isinstance(document, dict)
    value = literals.geojson(document, start, source.budget)
    return source.bulky(Piece("GEOMETRY", value, start, match.end()))


def _unknown(source: Source, match: _Match) -> Piece:
    start, character = match.start("unknown"), match["unknown"]
    if character in "'\"{":
        closing, token_name = {"'": ("'", "string"), '"': ('"', "name"), "{": ("}", "geometry")}[character]
        raise Misreading(start, f"a closing {closing} for the {token_name} that starts here")
    if number := _NUMBER.match(source.text, start):
        raise Misreading(number.end(), f"a space or an operator after the number {number[0]}")
    return Piece("UNKNOWN", character, start, match.end())


def _number(source: Source, match: _Match) -> Piece:
    """Read a number; a sign behind an operand is an operator."""
    text, (start, end) = match["number"], match.span("number")
    if _BARE_MOMENT.match(source.text, start):
        raise Misreading(start, "DATE('2026-01-31') or TIMESTAMP('2026-01-31T12:00:00Z')")
    if text[0] in "+-" and source.previous in _OPERAND_ENDS:
        return Piece(_ARITHMETIC[text[0]], text[0], start, start + 1)
    return Piece("NUMBER", literals.number(text, start), start, end)


def _arithmetic(source: Source, match: _Match) -> Piece:
    operator, (start, end) = match["arithmetic"], match.span("arithmetic")
    if operator == "-" and source.text.startswith("-", end):
        raise Misreading(start, "a space between two minus signs (a filter has no comments)")
    return Piece(_ARITHMETIC[operator], operator, start, end)


def _misspelt(source: Source, match: _Match) -> Piece:
    misspelt = match["misspelt"]
    raise Misreading(match.start("misspelt"), f"{_MISSPELT[misspelt]} instead of {misspelt}")


def _token(type: str, group: str, convert: Callable[[str, int], Any]) -> Callable[[Source, _Match], Piece]:
    def read(source: Source, match: _Match) -> Piece:
        start, end = match.span(group)
        return Piece(type, convert(match[group], start), start, end)

    return read


def _bracket(type: str) -> Callable[[Source, _Match], Piece]:
    def read(source: Source, match: _Match) -> Piece:
        end = match.end()
        return Piece(type, None, end - 1, end)

    return read


def _name(text: str, position: int) -> str:
    if text == '""':
        raise MeaningError("an attribute needs a name", position)
    return literals.unquote(text)


def _as_written(text: str, position: int) -> str:
    return text


def _boolean(text: str, position: int) -> bool:
    return text.upper() == "TRUE"


def _compared_with(convert: Callable[[str, int], Any]) -> Callable[[Source, _Match], Piece]:
    return lambda source, match: _comparison(convert, source, match)


#: The group of `_PIECE` that matched last -> what makes a piece of it.
_READERS: dict[str, Callable[[Source, _Match], Piece]] = {
    "integer": _compared_with(literals.integer),
    "decimal": _compared_with(literals.decimal),
    "simple_string": _compared_with(_as_written),
    "boolean": _compared_with(_boolean),
    "joint": _joint,
    "high": _between,
    "in_here": _is_in,
    "pattern": _is_like,
    "is_null": _is_null,
    "word": _word,
    "call": _call,
    "vector": _vector,
    "open": _bracket("LPAR"),
    "close": _bracket("RPAR"),
    "comma": _bracket("COMMA"),
    "number": _number,
    "arithmetic": _arithmetic,
    "string": _token("STRING", "string", lambda text, position: literals.unquote(text)),
    "operator": _token("OPERATOR", "operator", _as_written),
    "quoted_name": _token("NAME", "quoted_name", _name),
    "object": _object,
    "misspelt": _misspelt,
    "unknown": _unknown,
}
