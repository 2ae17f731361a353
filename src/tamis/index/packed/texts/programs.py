"""LIKE patterns as programs of bytes for `tamis.kernels.text.like`."""

from __future__ import annotations

from tamis.kernels.text.like import ANY_TEXT, LONGEST_PIECE, ONE_CHARACTER
from tamis.model.pattern import like_pattern
from tamis.model.subscription import Like

__all__ = ["contains_literal", "program_of"]

_ANY, _ONE = bytes([ANY_TEXT]), bytes([ONE_CHARACTER])


def program_of(like: Like) -> bytes | None:
    r"""Return the program of a pattern; None for a regular expression, or a piece that is too long for the kernel.

    >>> program_of(Like("s", "%a_b"))
    b'\xfea\xffb'
    """
    if like.is_regex:
        return None
    pieces = [
        b"".join(_ONE if character is None else character.encode() for character in piece)
        for piece in like_pattern(like.pattern).pieces
    ]
    if any(len(piece) > LONGEST_PIECE for piece in pieces[1:-1]):
        return None
    return _ANY.join(pieces)


def contains_literal(program: bytes, literal: bytes) -> bool:
    """Whether a program asks for nothing but that the text holds a literal."""
    return program == _ANY + literal + _ANY
