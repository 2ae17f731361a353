"""Compares text patterns: finds a string that matches some of them, does not match others and lies in a range.

A LIKE pattern or a regular expression is a regular language, and so is "not before this string": all can be read one
character at a time. Walking all of them in step gives one machine whose states are (positions reached in each
pattern, how the text so far compares with each cut of the value set). A breadth-first walk over its
states finds the shortest string that satisfies everything, or proves that there is none: yes and no are exact
for covering and conflicts of patterns, provided that the walk ends within `MAX_STATES` and `MAX_STEPS`. Before
the walk, a short string of each pattern is tried, which answers most questions.

Characters that no pattern and no cut mentions are all alike, except for their order, so the alphabet is
the characters mentioned and one character from each gap between them.

Patterns that are all read on text folded in the same way are walked on folded text. That nothing fits is then proved
for all text; what fits counts if folding does not change it. Patterns folded in different ways, or folded ones with a
range, are only tried with a few strings: what they have in common stays unknown, which withholds no event.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from tamis.algebra.proofs.budget import Budget
from tamis.model.pattern import like_pattern
from tamis.model.subscription import Like
from tamis.model.text.folding import Fold
from tamis.model.text.patterns import meets, reading_of
from tamis.model.text.regex import MachineState, RegexMachine, regex_machine
from tamis.model.value_set import ValueSet

__all__ = [
    "FEW_STEPS",
    "MAX_STATES",
    "MAX_STEPS",
    "StringSearch",
    "find_string",
    "finite_strings",
    "is_inside",
    "no_string_fits",
    "search_strings",
]

#: States of the joint machine that one question may visit (about 5 us each and character of the alphabet).
MAX_STATES = 2_000

#: Steps, one per state, character and pattern (and more for long ones), that one question may take.
MAX_STEPS = 60_000

#: Steps after which the search for a string that fits one expression alone ends.
SAMPLE_STEPS = 4_000

#: A step costs one more for each 256 items of a pattern, and for each 16 cuts that agree with the text so far.
_ITEMS, _CUTS = 256, 16

#: Steps that cost as much as one piece of a budget: a step takes 1 to 2 us.
STEPS_PER_PIECE = 25

#: Steps of a walk for which a budget has no more left than for this many.
FEW_STEPS = 4_000

#: Preferred characters for positions where the patterns allow any: a witness should be readable.
_READABLE = "xaAz09 -~é\u4e00"


@dataclass(frozen=True, slots=True)
class StringSearch:
    """The result of a search: a ``text`` that fits; or None, and whether it is ``proved`` that no string fits."""

    text: str | None
    proved: bool
    #: The steps of the walk.
    steps: int = field(default=0, repr=False, compare=False)


@lru_cache(maxsize=8192)
def search_strings(allowed: ValueSet, likes: tuple[Like, ...], most: int = MAX_STEPS) -> StringSearch:
    """Find a string in ``allowed`` that satisfies every LIKE, negated ones included, in ``most`` steps.

    >>> a, b = Like("name", "%quake%"), Like("name", "%earthquake%")
    >>> search_strings(ValueSet(from_below=True), (a, Like("name", "%earthquake%", negated=True)))
    StringSearch(text='quake', proved=True)
    >>> search_strings(ValueSet(from_below=True), (b, Like("name", "%quake%", negated=True)))
    StringSearch(text=None, proved=True)
    """
    listed = finite_strings(allowed)
    if listed is not None:
        fitting = (text for text in listed if _fits_all(text, likes))
        return StringSearch(next(fitting, None), proved=True)
    for text in ("", *(_sample(like) for like in likes if not like.negated)):
        if text is not None and text in allowed and _fits_all(text, likes):
            return StringSearch(text, proved=True)
    folds = {reading_of(like.pattern, like.fold, like.is_regex)[1] for like in likes}
    if len(folds) > 1 or (any(folds) and allowed.cuts):
        return StringSearch(None, proved=False)
    answer = _Walk(allowed, likes).search(most)
    if answer.text is not None and not _fits_all(answer.text, likes):  # folding changes it
        return StringSearch(None, proved=False, steps=answer.steps)
    return answer


def no_string_fits(allowed: ValueSet, likes: tuple[Like, ...], budget: Budget | None = None) -> bool:
    """Whether it is proved that no string in ``allowed`` satisfies every LIKE; the walk is charged to the budget.

    >>> no_string_fits(ValueSet(from_below=True), (Like("s", "%a"), Like("s", "%b")))
    True
    """
    answer = find_string(allowed, likes, budget)
    return answer.proved and answer.text is None


def find_string(allowed: ValueSet, likes: tuple[Like, ...], budget: Budget | None = None) -> StringSearch:
    """Do as `search_strings`, without a walk where patterns exclude each other at a glance; a walk is charged for."""
    if budget is not None and budget.exhausted:
        return StringSearch(None, proved=False)
    required = [like for like in likes if not (like.is_regex or like.negated)]
    # Subtracting a long OR makes nearly all of the patterns negated.
    excluded = [like for like in likes if like.negated and not like.is_regex]
    for like, other in itertools.product(required, excluded):
        if like.fold == other.fold and _is_inside(like.pattern, other.pattern):
            return _NO_STRING
    for like, other in itertools.combinations(required, 2):
        if like.fold == other.fold and _ends_differ(like.pattern, other.pattern):
            return _NO_STRING
    wanted = [text for like in likes if not like.negated and (text := _sample(like)) is not None]
    for text in ("".join(wanted), "".join(reversed(wanted))) if len(wanted) > 1 else ():
        if text in allowed and _fits_all(text, likes):
            return StringSearch(text, proved=True)
    is_short = budget is not None and budget.left * STEPS_PER_PIECE < MAX_STEPS
    answer = search_strings(allowed, likes, FEW_STEPS if is_short else MAX_STEPS)
    if budget is not None and answer.steps >= STEPS_PER_PIECE:
        budget.spend(answer.steps // STEPS_PER_PIECE)
    return answer


def is_inside(inner: Like, outer: Like, allowed: ValueSet) -> bool | None:
    """Whether all strings in ``allowed`` that meet a pattern meet another; None where that takes more than a glance.

    >>> is_inside(Like("s", "%earthquake%"), Like("s", "%quake%"), ValueSet(from_below=True))
    True
    """
    if inner.negated or allowed.missing:
        return None
    alike = not (inner.is_regex or outer.is_regex or outer.negated) and inner.fold == outer.fold
    if alike and _is_inside(inner.pattern, outer.pattern):
        return True
    sample = _sample(inner)
    if sample is None or sample not in allowed or not meets(inner, sample):
        return None
    return None if meets(outer, sample) else False


_NO_STRING = StringSearch(None, proved=True)


@lru_cache(maxsize=4096)
def _ends_differ(a: str, b: str) -> bool:
    """Whether no string fits two LIKE patterns, because they want it to begin or to end differently.

    >>> _ends_differ("%.exe", "%.dll"), _ends_differ("%e", "%.exe"), _ends_differ("a%b", "ac%")
    (True, False, False)
    """
    mine, yours = like_pattern(a).pieces, like_pattern(b).pieces
    begins = zip(mine[0], yours[0], strict=False)
    ends = zip(reversed(mine[-1]), reversed(yours[-1]), strict=False)
    return any(None not in pair and pair[0] != pair[1] for pair in (*begins, *ends))


@lru_cache(maxsize=4096)
def _is_inside(inner: str, outer: str) -> bool:
    """Whether a pattern without ``_`` matches every text that another LIKE pattern matches.

    Replace each wildcard of the other pattern by a character that this pattern does not mention. If this pattern
    matches that text, its ``%`` match those characters, and so they match everything the wildcards may stand for.

    >>> _is_inside("%earth_quake%", "%quake%"), _is_inside("%quake%", "%earth%")
    (True, False)
    """
    pattern = like_pattern(outer)
    if any(None in piece for piece in pattern.pieces):
        return False
    unknown = next((character for character in map(chr, range(0xE000, 0xF900)) if character not in outer), None)
    if unknown is None:
        return False
    pieces = ("".join(unknown if item is None else item for item in piece) for piece in like_pattern(inner).pieces)
    return pattern.matches(unknown.join(pieces))


@lru_cache(maxsize=4096)
def _shortest(pattern: str) -> str:
    """Return a shortest string that a pattern matches."""
    pieces = like_pattern(pattern).pieces
    return "".join(_READABLE[0] if item is None else item for piece in pieces for item in piece)


@lru_cache(maxsize=4096)
def _sample(like: Like) -> str | None:
    """Return a shortest string that fits a pattern by itself; None if there is none, or it takes long to find."""
    if not like.is_regex:
        return _shortest(like.pattern)
    return _Walk(_ANY_STRING, (replace(like, negated=False),)).search(SAMPLE_STEPS).text


_ANY_STRING = ValueSet(from_below=True)


def finite_strings(allowed: ValueSet, limit: int = 10_000) -> tuple[str, ...] | None:
    """Return the strings of a set when they can be listed, ascending; None when they cannot.

    Between two different cuts lie infinitely many strings unless the second is the first and a few NULs.
    """
    strings: list[str] = []
    for start, stop in allowed.intervals():
        first = "" if start is None else start[0]
        if stop is None or stop[0].rstrip("\0") != first.rstrip("\0") or not stop[0].startswith(first):
            return None
        strings += (first + "\0" * i for i in range(len(stop[0]) - len(first)))
        if len(strings) > limit:
            return None
    return tuple(strings)


def _fits_all(text: str, likes: Iterable[Like]) -> bool:
    return all(meets(like, text) for like in likes)


class _Pattern:
    """A pattern as a set of positions, kept as bits: bit i means "the first i items are matched".

    No two ``%`` are neighbours, so one shift lets all of them stand for nothing.
    """

    def __init__(self, pattern: str) -> None:
        #: The items in order: a character, None for ``_``, True for ``%``.
        self.items: list[str | bool | None] = []
        for number, piece in enumerate(like_pattern(pattern).pieces):
            self.items += [True] if number else []
            self.items += piece
        self.accepting = 1 << len(self.items)
        at: dict[str | bool | None, int] = {True: 0, None: 0}
        for i, item in enumerate(self.items):
            at[item] = at.get(item, 0) | 1 << i
        #: Positions where any character stays (``%``), where any advances (``_``), and where each mentioned one does.
        self.skips, self.wild = at[True], at[None]
        self.masks = {item: bits | self.wild for item, bits in at.items() if isinstance(item, str)}
        self.start = 1 | (self.skips & 1) << 1

    @property
    def mentioned(self) -> set[str]:
        """The characters that the pattern mentions; all others behave alike."""
        return set(self.masks)

    @property
    def length(self) -> int:
        """The number of items, which is about the cost of a step."""
        return len(self.items)

    def step(self, positions: int, character: str) -> int:
        """Return the positions after one more character."""
        following = (positions & self.skips) | (positions & self.masks.get(character, self.wild)) << 1
        return following | (following & self.skips) << 1

    def accepts(self, positions: int) -> bool:
        """Whether a text that ends here fits."""
        return bool(positions & self.accepting)

    def is_dead(self, positions: int) -> bool:
        """Whether no text that goes on from here fits."""
        return not positions


class _Expression:
    """A regular expression with the interface of a `_Pattern`; its states are those of its automaton."""

    def __init__(self, machine: RegexMachine) -> None:
        self._machine = machine
        self.start, self.step, self.accepts = machine.start, machine.step, machine.fits_at_end
        starts = (0xE000 if 0xD800 <= code < 0xE000 else code for code in machine.cells.starts)
        #: The first character of each cell stands for all of it.
        self.mentioned = {chr(code) for code in starts}
        self.length = len(machine.cells.starts)

    def is_dead(self, state: MachineState) -> bool:
        """Whether no text that goes on from here fits."""
        return state is self._machine.dead


@lru_cache(maxsize=256)
def _reader(pattern: str, fold: Fold, is_regex: bool) -> Any:
    return _Expression(regex_machine(pattern, fold)) if is_regex else _Pattern(pattern)


#: Cuts not yet decided, as (index, characters compared equal); and how many lie at or before the text.
_Order = tuple[tuple[int, ...], int, int]
_State = tuple[tuple[Any, ...], _Order]


class _Walk:
    """One breadth-first walk over the joint machine."""

    def __init__(self, allowed: ValueSet, likes: Sequence[Like]) -> None:
        self.allowed = allowed
        self.cuts: list[str] = [value for value, _ in allowed.cuts]
        self.likes = likes
        self.patterns = [_reader(like.pattern, like.fold, like.is_regex) for like in likes]
        mentioned: set[str] = set().union(*(pattern.mentioned for pattern in self.patterns))
        self.alphabet = _alphabet(mentioned.union(*self.cuts))
        #: The cost of one character, in any state.
        self.length = sum(1 + pattern.length // _ITEMS for pattern in self.patterns)

    def search(self, most: int = MAX_STEPS) -> StringSearch:
        """Return the shortest fitting string; among several, the one whose characters come first in the alphabet."""
        start: _State = (tuple(pattern.start for pattern in self.patterns), (tuple(range(len(self.cuts))), 0, 0))
        visited, queue, steps = {start}, deque([(start, "")]), self.length
        while queue:
            state, text = queue.popleft()
            if self._accepts(state) and text in self.allowed:
                return StringSearch(text, proved=True, steps=steps)
            steps += len(self.alphabet) * (self.length + len(state[1][0]) // _CUTS)
            if steps > most:
                return StringSearch(None, proved=False, steps=steps)
            for character in self.alphabet:
                following = self._step(state, character)
                if following is None or following in visited:
                    continue
                if len(visited) >= MAX_STATES:
                    return StringSearch(None, proved=False, steps=steps)
                visited.add(following)
                queue.append((following, text + character))
        return StringSearch(None, proved=True, steps=steps)

    def _accepts(self, state: _State) -> bool:
        """Whether every required pattern has matched to its end, and no negated one has."""
        return all(
            pattern.accepts(at) != like.negated
            for at, pattern, like in zip(state[0], self.patterns, self.likes, strict=True)
        )

    def _step(self, state: _State, character: str) -> _State | None:
        positions, order = state
        after = tuple(pattern.step(at, character) for pattern, at in zip(self.patterns, positions, strict=True))
        for at, pattern, like in zip(after, self.patterns, self.likes, strict=True):
            if not like.negated and pattern.is_dead(at):
                return None  # this pattern can no longer match
        return after, self._compare(order, character)

    def _compare(self, order: _Order, character: str) -> _Order:
        """Compare one more character with the cuts that agree with the text so far."""
        tied, depth, at_or_before = order
        still = []
        for index in tied:
            cut = self.cuts[index]
            if depth >= len(cut) or character > cut[depth]:
                at_or_before += 1
            elif character == cut[depth]:
                still.append(index)
        # Only the parity of the number decides membership, and the depth matters only to tied cuts.
        return tuple(still), depth + 1 if still else 0, at_or_before & 1


def _alphabet(mentioned: set[str]) -> list[str]:
    """Return the mentioned characters and one of each gap between them, readable ones first."""
    ordered = sorted(mentioned)
    gaps: dict[int, str] = {}
    for character in (*_READABLE, *_following(ordered), "\0"):
        if character not in mentioned:
            gaps.setdefault(bisect_right(ordered, character), character)
    return [*ordered, *gaps.values()]


def _following(characters: Iterable[str]) -> Iterable[str]:
    """Yield the character that follows each one, skipping the surrogates, which are not text."""
    for character in characters:
        code = ord(character) + 1
        if code <= 0x10FFFF:
            yield chr(0xE000 if code == 0xD800 else code)
