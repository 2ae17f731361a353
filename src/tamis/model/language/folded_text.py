"""The grammar rules for text with case or accents ignored, and for ILIKE and MATCHES."""

from __future__ import annotations

import dataclasses

from tamis.model.language import limits
from tamis.model.language.arithmetic.reading import attribute_of, expression_of
from tamis.model.language.lexer import Piece
from tamis.model.language.literals import ORDER_OF_FOLDED, MeaningError, unfolded
from tamis.model.language.nodes import Arithmetic, Call, Node, Property, TextTest
from tamis.model.text.folding import Fold, fold_text

__all__ = ["FoldedText", "leaf"]


def leaf(node: Node, first: Piece, last: Piece) -> Piece:
    """Return a condition as an operand of AND, OR and NOT; it stands from the first piece to the last."""
    return Piece("operand", node, first.start, last.end)


def _text_test(
    pieces: list[Piece], op: str, operands: tuple[str, ...], fold: Fold = Fold.NONE, negated: bool | None = None
) -> Piece:
    """Return a test of the text of the first piece, an attribute, folded or not; four pieces have a NOT among them."""
    first, last = pieces[0], pieces[-1]
    name = first.value[0] if first.type == "folded" else attribute_of(first, op)
    is_negated = len(pieces) == 4 if negated is None else negated
    return leaf(TextTest(name, op, operands, fold, is_negated, (first.start, last.end)), first, last)


def _operand(value: object, fold: Fold, piece: Piece, name: str) -> str:
    """Return what folded text is compared with, or refuse it: a string that is not folded would never be equal."""
    if isinstance(value, Property):
        raise MeaningError("CASEI and ACCENTI are compared with text, not with another attribute", piece.start, name)
    if isinstance(value, Arithmetic | Call):
        raise MeaningError("CASEI and ACCENTI are compared with text, not with an expression", piece.start, name)
    problem = unfolded(value, fold)
    if problem is not None:
        raise MeaningError(problem, piece.start, value, name)
    assert isinstance(value, str)
    return value


class FoldedText:
    """The alternatives of the grammar for text: their pieces in, one piece out. See `parse._Builder`."""

    def is_ilike(self, pieces: list[Piece]) -> Piece:
        """Read ``name ILIKE 'pattern'``: LIKE that ignores case."""
        return _text_test(pieces, "LIKE", (fold_text(pieces[-1].value, Fold.CASE),), Fold.CASE)

    def is_match(self, pieces: list[Piece]) -> Piece:
        """Read ``name MATCHES 'expression'``."""
        return _text_test(pieces, "MATCHES", (pieces[-1].value,))

    def folded_name(self, pieces: list[Piece]) -> Piece:
        """Read ``CASEI(name)`` or ``ACCENTI(name)``, also one in the other."""
        function, _, inner, closed = pieces
        name, fold = inner.value if inner.type == "folded" else (inner.value, Fold.NONE)
        limits.DEPTH.check(inner.depth + 1)
        return Piece("folded", (name, fold | function.value), function.start, closed.end, inner.depth + 1)

    def folded_string(self, pieces: list[Piece]) -> Piece:
        """Read ``CASEI('text')``: a constant, folded at once."""
        function, _, inner, closed = pieces
        limits.DEPTH.check(inner.depth + 1)
        folded = fold_text(inner.value, function.value)
        return Piece("STRING", folded, function.start, closed.end, inner.depth + 1)

    def folded_comparison(self, pieces: list[Piece]) -> Piece:
        """Read ``CASEI(name) = CASEI('text')``, or ``<>``."""
        (name, fold), operator, operand = pieces[0].value, pieces[1], pieces[-1]
        if operator.value not in ("=", "<>"):
            raise MeaningError(ORDER_OF_FOLDED, operator.start, operator.value, name)
        text = _operand(expression_of(operand), fold, operand, name)
        return _text_test(pieces, "=", (text,), fold, operator.value == "<>")

    def turned_folded_comparison(self, pieces: list[Piece]) -> Piece:
        """Read ``CASEI('text') = CASEI(name)``."""
        operand, operator, name = pieces
        turned = self.folded_comparison([name, operator, operand])
        node = dataclasses.replace(turned.value, span=(operand.start, name.end))
        return leaf(node, operand, name)

    def folded_is_in(self, pieces: list[Piece]) -> Piece:
        """Read ``CASEI(name) IN (...)``."""
        (name, fold), values = pieces[0].value, pieces[-1]
        operands = tuple(_operand(value, fold, values, name) for value in values.value)
        return _text_test(pieces, "IN", operands, fold, len(pieces) == 3)

    def folded_is_like(self, pieces: list[Piece]) -> Piece:
        """Read ``CASEI(name) LIKE CASEI('pattern')``."""
        (name, fold), pattern = pieces[0].value, pieces[-1]
        return _text_test(pieces, "LIKE", (_operand(pattern.value, fold, pattern, name),), fold)

    def folded_is_match(self, pieces: list[Piece]) -> Piece:
        """Read ``CASEI(name) MATCHES 'expression'``."""
        return _text_test(pieces, "MATCHES", (pieces[-1].value,), pieces[0].value[1])
