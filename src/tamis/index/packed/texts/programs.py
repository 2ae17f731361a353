"""Patterns as programs of bytes, for the kernels `tamis.kernels.text.like` and `tamis.kernels.text.machine`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from tamis.index.packed.texts.literals import Anchor
from tamis.index.packed.texts.machines import machine_program
from tamis.kernels.text.like import ANY_TEXT, LONGEST_PIECE, ONE_CHARACTER
from tamis.model.pattern import like_pattern, plain_pieces
from tamis.model.subscription import Like
from tamis.model.text.folding import Fold
from tamis.model.text.regex_syntax import parse_regex

__all__ = ["program_of", "says_only", "view_fold"]

_ANY_TEXT, _ONE_CHARACTER = bytes([ANY_TEXT]), bytes([ONE_CHARACTER])


def program_of(like: Like) -> bytes | None:
    r"""Return the program of a pattern; None for an expression or a piece that is too large for its kernel.

    >>> program_of(Like("s", "%a_b"))
    b'\xfea\xffb'
    """
    if like.is_regex:
        return machine_program(like.pattern, like.fold)
    plain = plain_pieces(like.pattern)
    if plain is not None:
        pieces = [piece.encode() for piece in plain]
    else:
        pieces = [_bytes_of(piece) for piece in like_pattern(like.pattern).pieces]
    if any(len(piece) > LONGEST_PIECE for piece in pieces[1:-1]):
        return None
    return _ANY_TEXT.join(pieces)


def _bytes_of(piece: Sequence[str | None]) -> bytes:
    if None not in piece:
        return "".join(cast(Sequence[str], piece)).encode()
    return b"".join(_ONE_CHARACTER if character is None else character.encode() for character in piece)


def view_fold(like: Like) -> Fold:
    """Return how the text has to be folded for the program of a pattern."""
    return parse_regex(like.pattern, like.fold).fold if like.is_regex else like.fold


def says_only(program: bytes, literal: bytes, anchor: Anchor) -> bool:
    """Whether a program asks for nothing but that the text holds a literal, or has it at an end."""
    before, after = b"" if anchor is Anchor.START else _ANY_TEXT, b"" if anchor is Anchor.END else _ANY_TEXT
    return program == before + literal + after
