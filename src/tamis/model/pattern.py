"""LIKE patterns, matched without backtracking.

``%`` stands for any text, ``_`` for one character, a backslash takes the next character literally. A
pattern is cut at its ``%`` into pieces; the first piece is anchored at the start, the last at the end,
and each piece between them is found as early as possible, which never loses a match. A piece without
``_`` is found by `str.find`, which is linear; one with ``_`` by the shift-and automaton, a bit per
character of the piece, so that no pattern can make a text slow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from tamis.model.values import UnfitError

__all__ = ["LikePattern", "like_pattern", "plain_pieces", "prefix_stop"]

#: A piece of a pattern: its characters in order; None is ``_``.
_Piece = tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class LikePattern:
    """A pattern cut at its ``%``; see `like_pattern`."""

    pieces: tuple[_Piece, ...]

    @property
    def exact(self) -> str | None:
        """The only string that matches, when the pattern has no wildcard."""
        return _literal(self.pieces[0]) if len(self.pieces) == 1 else None

    @property
    def prefix(self) -> str | None:
        """The prefix of every match, if the pattern is a prefix test (``abc%``)."""
        if len(self.pieces) > 1 and not any(self.pieces[1:]):
            return _literal(self.pieces[0])
        return None

    def matches(self, text: str) -> bool:
        """Whether the whole text fits the pattern."""
        first, last = self.pieces[0], self.pieces[-1]
        if len(self.pieces) == 1:
            return len(text) == len(first) and _fits_at(first, text, 0)
        end = len(text) - len(last)
        if end < len(first) or not _fits_at(first, text, 0) or not _fits_at(last, text, end):
            return False
        position = len(first)
        for piece in self.pieces[1:-1]:
            position = _find(piece, text, position, end)
            if position < 0:
                return False
        return True


def plain_pieces(pattern: str) -> list[str] | None:
    """Return the texts between the ``%`` of a pattern that has no other wildcard and no escape; None for any other.

    >>> plain_pieces("%quake%"), plain_pieces("a_"), plain_pieces("abc")
    (['', 'quake', ''], None, ['abc'])
    """
    return None if "\\" in pattern or "_" in pattern or "%%" in pattern else pattern.split("%")


@lru_cache(maxsize=4096)
def like_pattern(pattern: str) -> LikePattern:
    r"""Read a pattern, or raise `UnfitError` when it ends inside an escape.

    >>> like_pattern("%quake_").matches("big quakes"), like_pattern(r"100\%").exact
    (True, '100%')
    """
    if "\\" not in pattern and "_" not in pattern:  # most are words between wildcards
        first, *others = pattern.split("%")
        last = [tuple(others[-1])] if others else []
        return LikePattern((tuple(first), *(tuple(piece) for piece in others[:-1] if piece), *last))
    pieces: list[list[str | None]] = [[]]
    characters = iter(pattern)
    for character in characters:
        if character == "\\":
            escaped = next(characters, None)
            if escaped is None:
                raise UnfitError("a LIKE pattern that ends with a lone backslash")
            pieces[-1].append(escaped)
        elif character == "%":
            pieces.append([])
        else:
            pieces[-1].append(None if character == "_" else character)
    inner = [tuple(piece) for piece in pieces[1:-1] if piece]
    ends = [tuple(pieces[0]), tuple(pieces[-1])] if len(pieces) > 1 else [tuple(pieces[0])]
    return LikePattern((ends[0], *inner, *ends[1:]))


def prefix_stop(prefix: str) -> str | None:
    r"""Return the first string after all that start with ``prefix``; None if there is none.

    >>> prefix_stop("ab"), prefix_stop("a\U0010ffff"), prefix_stop("")
    ('ac', 'b', None)
    """
    stem = prefix.rstrip("\U0010ffff")
    if not stem:
        return None
    following = ord(stem[-1]) + 1
    return stem[:-1] + chr(0xE000 if following == 0xD800 else following)  # no lone surrogates


def _literal(piece: Sequence[str | None]) -> str | None:
    characters = [character for character in piece if character is not None]
    return "".join(characters) if len(characters) == len(piece) else None


def _fits_at(piece: _Piece, text: str, position: int) -> bool:
    return all(want is None or want == text[position + i] for i, want in enumerate(piece))


def _find(piece: _Piece, text: str, start: int, end: int) -> int:
    """Return where the earliest fit of a piece in text[start:end] ends, or -1."""
    literal = _literal(piece)
    if literal is not None:
        at = text.find(literal, start, end)
        return -1 if at < 0 else at + len(literal)
    wild = sum(1 << i for i, want in enumerate(piece) if want is None)
    masks: dict[str, int] = {}
    for i, want in enumerate(piece):
        if want is not None:
            masks[want] = masks.get(want, wild) | (1 << i)
    state, done = 0, 1 << (len(piece) - 1)
    for position in range(start, end):
        state = ((state << 1) | 1) & masks.get(text[position], wild)
        if state & done:
            return position + 1
    return -1
