"""Reading a subscription: CQL2 text or CQL2-JSON in, syntax tree out.

The text goes through `lexer` (characters to pieces) and lark's LALR(1) parser with ``grammar.lark``; the
methods of `_Builder` make syntax nodes while the parser reduces, so that no parse tree is ever built.
The parser keeps its own stack: no input can exhaust Python's. The tables are made on first use, once per
process (about 40 ms), and never cached on disk, for lark's cache is a pickle.

Where no rule fits, the terminals that would have fitted are put into plain words (`_WORDS`), after a look
at the mistakes that people make most, such as ``= NULL``.
"""

from __future__ import annotations

import importlib.resources
import re
import threading
from collections.abc import Mapping
from typing import Any, NoReturn

from lark import Lark
from lark.exceptions import UnexpectedToken

from tamis.errors import SubscriptionError, SubscriptionSyntaxError, TamisError
from tamis.model.language import cql2_json, limits
from tamis.model.language.arithmetic.reading import ArithmeticReader, attribute_of, expression_of
from tamis.model.language.folded_text import FoldedText, leaf
from tamis.model.language.foreign.corrections import corrected
from tamis.model.language.functions.calls import FunctionCalls
from tamis.model.language.lexer import BEFORE_STRINGS, RESERVED, TURNED, Piece, Source, TextLexer, check_paths
from tamis.model.language.literals import MeaningError, Misreading
from tamis.model.language.nodes import (
    And,
    ArrayTest,
    Compare,
    Constant,
    IsLike,
    Node,
    Not,
    Or,
)

__all__ = ["parse"]

#: Characters of a text for which an error proposes a correction: longer ones were not typed by hand.
_MOST_CORRECTED = 2_000
_VALUE_ALONE = re.compile(r"\b(AND|OR)\s+(?:'[^']*'|-?[0-9.]+)\s*$", re.IGNORECASE)
_SURROGATE = re.compile("[\ud800-\udfff]")
_OPERATOR = re.compile(r"\s*+[=<>]")
_CALLED = re.compile(r"(\w+)\s*\(([^()]*)$")
#: What stands in the second place of functions, by how their names begin.
_SECOND_ARGUMENTS = {
    "S_": "POLYGON((0 0, 1 0, 1 1, 0 0))",
    "RC": "POLYGON((0 0, 1 0, 1 1, 0 0))",
    "A_": "('a', 'b')",
    "T_": "TIMESTAMP('2026-01-31T12:00:00Z')",
    "V_": "(0.5, 1)",
    "IP": "'10.0.0.0/8'",
}
_building = threading.Lock()
_built: Lark | None = None


def parse(source: str | Mapping[str, Any]) -> Node:
    """Return the syntax tree of a subscription given as CQL2 text or as CQL2-JSON.

    A string whose first character is ``{`` is read as JSON, every other one as text.

    Raises
    ------
    SubscriptionSyntaxError
        The source cannot be read; the error says where, and what would have fitted.
    SubscriptionError
        It can be read, but not be meant: a polygon that crosses itself, a number without end.
    LimitError
        It is larger than the limits in `tamis.model.language.limits`.

    Examples
    --------
    >>> parse("100 > price")
    Compare(attribute='price', op='<', value=100, span=(0, 11))
    >>> parse({"op": "isNull", "args": [{"property": "price"}]})
    IsNull(attribute='price', negated=False, span=None)
    >>> parse("price >< 10")
    Traceback (most recent call last):
    tamis.errors.SubscriptionSyntaxError: expected a value at column 8
      price >< 10
             ^
    """
    if isinstance(source, str):
        return cql2_json.from_json_text(source) if source.lstrip()[:1] == "{" else _parse_text(source)
    if isinstance(source, Mapping | bool):
        return cql2_json.from_json(source)
    raise SubscriptionError(f"expected CQL2 as text or as JSON, not {type(source).__name__}", value=source)


def _parse_text(text: str) -> Node:
    """Parse a text; an error proposes the text that was probably meant, if that can be read."""
    try:
        return _parse_as_written(text)
    except (SubscriptionError, SubscriptionSyntaxError) as error:
        proposal = corrected(text) if len(text) <= _MOST_CORRECTED else None
        if proposal is not None and _is_readable(proposal):
            error.corrected = proposal
        raise


def _is_readable(text: str) -> bool:
    try:
        _parse_as_written(text)
    except TamisError:
        return False
    return True


def _parse_as_written(text: str) -> Node:
    limits.TOTAL.check(len(text))
    if not text.isascii() and (surrogate := _SURROGATE.search(text)):
        raise SubscriptionError(f"a lone surrogate is not text: character {surrogate.start() + 1}")
    source = Source(text)
    try:
        if ".." in text or ". " in text:
            check_paths(text)
        node: Node = _lark().parse(source)  # type: ignore[assignment]
    except MeaningError as error:
        raise SubscriptionError(error.problem, error.attribute, error.value, text, error.position) from None
    except Misreading as error:
        raise SubscriptionSyntaxError(text, error.position, error.expected) from None
    except UnexpectedToken as error:
        _explain(error, source)
    if "^" in text or "A_" in text or "a_" in text:  # else neither a power nor a function of sets is in it
        limits.check_costs(node)
    return node


def _lark() -> Lark:
    """Return the parser; the first call builds it while other threads wait."""
    global _built
    if _built is None:
        with _building:
            if _built is None:
                grammar = importlib.resources.files(__package__).joinpath("grammar.lark").read_text("utf-8")
                _built = Lark(
                    grammar,
                    parser="lalr",
                    lexer=TextLexer,
                    transformer=_Builder(),
                    keep_all_tokens=True,
                    maybe_placeholders=False,
                )
    return _built


def _node(piece: Piece) -> Node:
    """Return the node of an operand, or close a chain of ANDs or ORs and return that."""
    if piece.type == "AND":
        return And(tuple(piece.value), (piece.start, piece.end))
    if piece.type == "OR":
        return Or(tuple(piece.value), (piece.start, piece.end))
    node: Node = piece.value
    return node


class _Builder(FoldedText, FunctionCalls, ArithmeticReader):
    """One method per alternative of the grammar: its pieces in, one piece out."""

    def start(self, pieces: list[Piece]) -> Node:
        return _node(pieces[0])

    def as_it_is(self, pieces: list[Piece]) -> Piece:
        return pieces[0]

    def disjunction(self, pieces: list[Piece]) -> Piece:
        left, _, right = pieces
        return Piece("OR", [_node(left), _node(right)], left.start, right.end, max(left.depth, right.depth))

    def conjunction(self, pieces: list[Piece]) -> Piece:
        left, _, right = pieces
        return Piece("AND", [left.value, right.value], left.start, right.end, max(left.depth, right.depth))

    def longer_chain(self, pieces: list[Piece]) -> Piece:
        chain, _, right = pieces
        chain.value.append(_node(right))
        chain.end = right.end
        chain.depth = max(chain.depth, right.depth)
        return chain

    def group(self, pieces: list[Piece]) -> Piece:
        opened, inner, closed = pieces
        limits.DEPTH.check(inner.depth + 1)
        kind = "bare" if inner.type == "bare" else "operand"
        return Piece(kind, _node(inner), opened.start, closed.end, inner.depth + 1)

    def negation(self, pieces: list[Piece]) -> Piece:
        word, operand = pieces
        limits.DEPTH.check(operand.depth + 1)
        node = Not(operand.value, (word.start, operand.end))
        return Piece("operand", node, word.start, operand.end, operand.depth + 1)

    def bare_attribute(self, pieces: list[Piece]) -> Piece:
        (name,) = pieces
        return Piece("bare", Compare(name.value, "=", True, (name.start, name.end)), name.start, name.end)

    def constant(self, pieces: list[Piece]) -> Piece:
        (word,) = pieces
        return leaf(Constant(word.value, (word.start, word.end)), word, word)

    def in_list(self, pieces: list[Piece]) -> Piece:
        values = tuple(expression_of(piece) for piece in pieces[2:-1:2])
        return Piece("IN_LIST", values, pieces[0].start, pieces[-1].end)

    def empty_list(self, pieces: list[Piece]) -> NoReturn:
        raise MeaningError("IN needs at least one value", pieces[-1].start)

    def is_like(self, pieces: list[Piece]) -> Piece:
        name, pattern = pieces[0], pieces[-1]
        attribute, span = attribute_of(name, "LIKE"), (name.start, pattern.end)
        return leaf(IsLike(attribute, pattern.value, len(pieces) == 4, span), name, pattern)

    def array(self, pieces: list[Piece]) -> Piece:
        values = tuple(piece.value for piece in pieces[1:-1:2])
        limits.IN_VALUES.check(len(values))
        return Piece("ARRAY_LIST", values, pieces[0].start, pieces[-1].end)

    def array_test(self, pieces: list[Piece]) -> Piece:
        function, _, name, _, values, closed = pieces
        node = ArrayTest(function.value, name.value, _elements(values), (function.start, closed.end))
        return leaf(node, function, closed)

    def turned_array_test(self, pieces: list[Piece]) -> Piece:
        function, _, values, _, name, closed = pieces
        turned = TURNED.get(function.value, function.value)
        return leaf(ArrayTest(turned, name.value, _elements(values), (function.start, closed.end)), function, closed)


def _elements(values: Piece) -> tuple[Any, ...]:
    """Return the elements of a list; the lexer reads a list of numbers as a vector, whose integers are exact."""
    if values.type != "VECTOR":
        return tuple(values.value)
    limits.IN_VALUES.check(len(values.value))
    if max(map(abs, values.value)) >= 2**53:
        raise MeaningError("a list of numbers beyond 2**53 is not exact; write it as CQL2-JSON", values.start)
    return tuple(int(value) if value.is_integer() else value for value in values.value)


_LITERALS = frozenset({"NUMBER", "STRING", "BOOLEAN", "INSTANT"})
_OF_FOLDED = frozenset({"OPERATOR", "IN", "IN_LIST", "LIKE", "MATCHES", "NOT"})
#: Terminals that would have fitted -> what to call them, in the order in which they are named.
_WORDS: tuple[tuple[frozenset[str], str], ...] = (
    (frozenset({"COMPARISON", "NAME", *_LITERALS, "SPATIAL", "FOLD"}), "an attribute"),
    (frozenset({"NAME", *_LITERALS, "FOLD", "LPAR"}), "a value"),
    (frozenset({"NAME", "NUMBER", "LPAR", "FUNCTION", "MINUS"}), "a number"),
    (frozenset({"NAME", "FOLD"}), "an attribute"),
    (frozenset({"NAME", "GEOMETRY"}), "an attribute or a geometry"),
    (frozenset({"NAME", "VECTOR", "LPAR"}), "an attribute or a list such as ('a', 'b')"),
    (frozenset({"NAME", "INSTANT", "DAY", "INTERVAL"}), "an attribute, TIMESTAMP('...'), DATE('...') or INTERVAL(...)"),
    (frozenset({"NAME"}), "an attribute"),
    (_LITERALS | {"FOLD"}, "a value"),
    (_LITERALS, "a value"),
    (frozenset({"NUMBER"}), "a number"),
    (frozenset({"STRING", "FOLD"}), "a string in single quotes"),
    (frozenset({"STRING"}), "a string in single quotes"),
    (frozenset({"GEOMETRY"}), "a geometry: POLYGON((...)), BBOX(...) or GeoJSON"),
    (frozenset({"VECTOR", "LPAR"}), "a list in parentheses such as (0.5, 1)"),
    (frozenset({"OPERATOR", "BETWEEN", "IN", "IN_LIST", "LIKE", "ILIKE", "MATCHES", "IS", "NOT"}), "a comparison"),
    (_OF_FOLDED, "a comparison with =, <>, IN, LIKE or MATCHES"),
    (frozenset({"OPERATOR"}), "a comparison"),
    (frozenset({"IN_LIST", "IN"}), "IN"),
    (frozenset({"BETWEEN"}), "BETWEEN"),
    (frozenset({"LIKE", "ILIKE", "MATCHES"}), "LIKE"),
    (frozenset({"LIKE", "MATCHES"}), "LIKE"),
    (frozenset({"LIKE"}), "LIKE"),
    (frozenset({"NOT"}), "NOT"),
    (frozenset({"NULL"}), "NULL"),
    (frozenset({"LPAR"}), "'('"),
    (frozenset({"COMMA"}), "','"),
    (frozenset({"AND"}), "AND"),
    (frozenset({"OR"}), "OR"),
    (frozenset({"RPAR"}), "')'"),
    (frozenset({"$END"}), "the end"),
)


def _in_words(terminals: set[str]) -> str:
    """Return the allowed terminals as text for a message.

    >>> _in_words({"AND", "OR", "$END"})
    'AND, OR or the end'
    """
    left, phrases = set(terminals), []
    for group, words in _WORDS:
        if group <= left:
            left -= group
            phrases.append(words)
    return " or ".join(filter(None, (", ".join(phrases[:-1]), *phrases[-1:])))


def _after_or(text: str) -> str:
    """Return what to do about a text that ends with AND or OR and a value alone."""
    value_alone = _VALUE_ALONE.search(text)
    return f" (each condition names its attribute: x = 1 {value_alone[1].upper()} x = 2)" if value_alone else ""


def _next_character(text: str, position: int) -> int:
    return position + len(text[position:]) - len(text[position:].lstrip())


def _usage(call: str) -> str:
    """Return an example of the function whose call ends too early."""
    function = _CALLED.search(call)
    example = _SECOND_ARGUMENTS.get(function[1][:2].upper()) if function else None
    return f" and a second argument: {function[1]}({function[2].strip()}, {example})" if function and example else ""


def _explain(error: UnexpectedToken, source: Source) -> NoReturn:
    """Raise the error for a token that does not fit."""
    text, token = source.text, error.token
    parser = error.interactive_parser
    fitting: set[str] = set(parser.accepts()) if parser else set()  # type: ignore[no-untyped-call]
    expected = _in_words(fitting)
    if not isinstance(token, Piece):  # lark's own: the end of the text
        raise SubscriptionSyntaxError(text, source.stop, expected + _after_or(text)) from None
    start, written = token.start, text[token.start : token.end]
    if token.type == "NAME" and written.upper() in BEFORE_STRINGS and source.text[token.end :].strip():
        raise SubscriptionSyntaxError(text, _next_character(text, token.end), "a string in single quotes") from None
    if token.type == "RPAR" and fitting == {"COMMA"}:
        expected += _usage(text[:start])
    if token.type == "NULL" and fitting >= _LITERALS and "COMPARISON" not in fitting:
        expected += " (a missing value is asked for with IS NULL)"
    if token.type == "COMPARISON" and "NAME" in fitting:
        expected += " (two comparisons are joined: 1 < x < 5 is written x > 1 AND x < 5)"
    if token.type in RESERVED and "NAME" in fitting and _OPERATOR.match(text, token.end):
        expected += f" (an attribute called {written} stands in double quotes)"
    if text[:start].rstrip().endswith("\\'"):
        expected += " (a quote inside a string is written twice)"
    raise SubscriptionSyntaxError(text, start, expected) from None
