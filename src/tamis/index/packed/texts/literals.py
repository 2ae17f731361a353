"""Required literals: what a string must hold for a filter to match.

A *key* is a literal in the text of an attribute, folded as its pattern is. A *group* of keys says that every event that
matches holds at least one of them. A LIKE pattern has a group of one key for each run between its wildcards; a regular
expression one for each run of single characters outside options, and one for alternatives that all have a literal. A
tree of conditions joins the groups of its parts: those of each part of an AND, one of every part of an OR.

Literals are cut to `LONGEST` bytes, which bounds the scanner's memory and the work per byte: their first ones where
they start a text, otherwise their last ones. What a string must hold, it holds each part of.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import Final, NamedTuple, cast

from tamis.model.pattern import like_pattern, plain_pieces
from tamis.model.subscription import AllOf, AnyOf, Filter, Like, Predicate
from tamis.model.text.folding import Fold
from tamis.model.text.regex_syntax import Alt, Chars, Repeat, Seq, Tree, parse_regex

__all__ = ["LONGEST", "Anchor", "Group", "LiteralKey", "groups_of", "required_groups"]

#: Bytes of a literal that are looked for.
LONGEST: Final = 8

#: Keys of a group; a larger one proposes too much to be worth it.
_MOST_KEYS: Final = 1_024


class Anchor(IntEnum):
    """Where in a text a literal stands."""

    NONE = 0
    START = 1
    END = 2


class LiteralKey(NamedTuple):
    """A literal that the folded text of an attribute holds, as UTF-8, anywhere or at one end."""

    attribute: str
    fold: Fold
    literal: bytes
    anchor: Anchor = Anchor.NONE


Group = tuple[LiteralKey, ...]


def groups_of(filter: Filter) -> list[Group]:
    """Return the groups of a filter: each event it matches holds a key of every group."""
    groups = [group for constraint in filter.constraints for group in required_groups(constraint)]
    return groups if filter.rest is None else [*groups, *required_groups(filter.rest)]


def required_groups(predicate: Predicate) -> list[Group]:
    """Return the groups of a condition or a tree of them.

    >>> [[key.literal for key in group] for group in required_groups(Like("s", "%quake_in%"))]
    [[b'quake'], [b'in']]
    """
    if isinstance(predicate, AllOf):
        return [group for part in predicate.parts for group in required_groups(part)]
    if isinstance(predicate, AnyOf):
        return _of_all(required_groups(part) for part in predicate.parts)
    if not isinstance(predicate, Like) or predicate.negated:
        return []
    if not predicate.is_regex:
        return list(_of_like(predicate))
    regex = parse_regex(predicate.pattern, predicate.fold)
    return [
        tuple({LiteralKey(predicate.attribute, regex.fold, text.encode()[-LONGEST:]): None for text in group})
        for group in _of_tree(regex.tree)
    ]


def _of_like(like: Like) -> Iterator[Group]:
    plain = plain_pieces(like.pattern)
    if plain is not None:
        last = len(plain) - 1
        for number, run in enumerate(plain):
            if run:
                anchor = Anchor.END if number == last else Anchor.NONE if number else Anchor.START
                text = run.encode()
                literal = text[:LONGEST] if anchor is Anchor.START else text[-LONGEST:]
                yield (LiteralKey(like.attribute, like.fold, literal, anchor),)
        return
    pieces = like_pattern(like.pattern).pieces
    for number, piece in enumerate(pieces):
        for run, starts, ends in _runs(piece):
            if ends and number == len(pieces) - 1:
                yield (LiteralKey(like.attribute, like.fold, run.encode()[-LONGEST:], Anchor.END),)
            elif starts and number == 0:
                yield (LiteralKey(like.attribute, like.fold, run.encode()[:LONGEST], Anchor.START),)
            else:
                yield (LiteralKey(like.attribute, like.fold, run.encode()[-LONGEST:]),)


def _of_all(parts: Iterator[list[Group]]) -> list[Group]:
    """Return a group with the best of every part; none when a part has none."""
    keys: dict[LiteralKey, None] = {}
    for groups in parts:
        if not groups:
            return []
        best: Group = max(groups, key=_shortest)
        keys.update(dict.fromkeys(best))
        if len(keys) > _MOST_KEYS:
            return []
    return [tuple(keys)] if keys else []


def _shortest(group: Group) -> int:
    return min(len(key.literal) for key in group)


def _runs(piece: tuple[str | None, ...]) -> Iterator[tuple[str, bool, bool]]:
    """Yield each run between wildcards, and whether it starts and ends the piece."""
    if piece and None not in piece:
        yield "".join(cast(tuple[str, ...], piece)), True, True
        return
    run = ""
    for i, character in enumerate((*piece, None)):
        if character is None:
            if run:
                yield run, i == len(run), i == len(piece)
            run = ""
        else:
            run += character


def _of_tree(tree: Tree) -> list[tuple[str, ...]]:
    """Return groups of literals of a regular expression."""
    groups: list[tuple[str, ...]] = []
    run = ""
    for part in (*(tree.parts if isinstance(tree, Seq) else (tree,)), None):
        if isinstance(part, Chars) and len(part.ranges) == 1 and part.ranges[0][0] == part.ranges[0][1]:
            run += chr(part.ranges[0][0])
            continue
        if run:
            groups.append((run,))
        run = ""
        if isinstance(part, Repeat) and part.least:
            groups += _of_tree(part.part)
        elif isinstance(part, Alt):
            branches = [_of_tree(branch) for branch in part.parts]
            if all(branches):
                best = [max(branch_groups, key=lambda group: min(map(len, group))) for branch_groups in branches]
                groups.append(tuple(text for group in best for text in group))
        elif isinstance(part, Seq):
            groups += _of_tree(part)
    return [group for group in groups if len(group) <= _MOST_KEYS]
