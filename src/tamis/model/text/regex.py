"""Regular expressions in linear time: a nondeterministic machine, made deterministic as far as texts need it.

A tree (`regex_syntax`) becomes a program of steps: take a character out of a set, go two ways, check a position. The
threads that are alive after some text are a *state*; a state and the cell of the next character give the next state,
which is worked out once and kept. At most `MAX_STATES` are kept: when there are more, all are forgotten, and work goes
on from the one in use. So a character costs one look-up. A text that leads to more new states than are kept is read
with all threads as bits instead (`tamis.kernels.text.threads`), at worst a pass over the program of at most `MAX_STEPS`
steps per character: no text and no expression takes more than linear time.

The question is whether the expression fits *somewhere* in the text, so a match ends the walk. Characters that all sets
treat alike are one *cell*: the cells partition the code points by the ends of all ranges.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from tamis.kernels.text.threads import MET, WORDS, run_threads
from tamis.model.text.folding import Fold
from tamis.model.text.regex_syntax import WORD, Alt, Anchor, Chars, Regex, Repeat, Seq, Tree, parse_regex
from tamis.model.values import UnfitError

__all__ = ["MAX_STATES", "MAX_STEPS", "RegexMachine", "State", "regex_machine"]

#: Steps of a program; a repetition {n} is n copies, a run is a single step.
MAX_STEPS: Final = 500
#: States that a machine keeps.
MAX_STATES: Final = 2_000
#: A repetition of one character without an upper bound is a *run* from this number on. The thread that entered it first
#: has counted the most, and whatever another thread reaches it has reached before: a state has one count for a run.
_SHORTEST_RUN: Final = 33
#: A thread is the number of its step and, above these bits, what it has counted.
_STEP_BITS: Final = 16
_STEP: Final = (1 << _STEP_BITS) - 1

#: What stands before or after a position.
_EDGE, _WORD, _NEWLINE, _OTHER = range(4)

_BEFORE: Final = {"begin": (_EDGE,), "line_begin": (_EDGE, _NEWLINE)}
_AFTER: Final = {"end": (_EDGE,), "line_end": (_EDGE, _NEWLINE)}


@dataclass(slots=True)
class _Step:
    """One step: take a character of ``cells``, check ``anchor``, or go on at ``ways`` (several, or none: the match)."""

    ways: tuple[int, ...] = ()
    chars: Chars | None = None
    anchor: str | None = None
    cells: frozenset[int] = frozenset()
    #: Characters that a run takes before it may end; 0: the step takes a single character.
    run: int = 0


@dataclass(slots=True, eq=False)
class State:
    """Threads alive after some text, and what stands before the position; ``following`` by cell."""

    threads: tuple[int, ...]
    before: int
    following: dict[int, State] = field(default_factory=dict)
    #: Whether the expression fits when the text ends here; None: not worked out yet.
    fits_at_end: bool | None = None


class RegexMachine:
    """Decides for any text whether an expression fits somewhere in it; ``fold`` says how the text is to be folded."""

    def __init__(self, regex: Regex) -> None:
        self.fold = regex.fold
        self._steps = _Compiler().program(regex.tree)
        #: Whether a match can only begin where the text begins.
        self._anchored = _first(regex.tree) == Anchor("begin")
        self._looks = any(step.anchor is not None for step in self._steps)
        #: The first code point of each cell, ascending from 0.
        self.cell_starts = self._cut_into_cells()
        self._of_ascii = {chr(code): bisect_right(self.cell_starts, code) - 1 for code in range(128)}
        self._kinds = [_kind_of(code) if self._looks else _OTHER for code in self.cell_starts]
        self._states: dict[tuple[tuple[int, ...], int], State] = {}
        #: The state that has found a match, and the one that never will.
        self.met, self.dead = State((-1,), _OTHER, fits_at_end=True), State((), _OTHER, fits_at_end=False)
        self.start = self._state((0,), _EDGE)

    def matches(self, text: str) -> bool:
        """Whether the expression fits somewhere in a text that is folded already."""
        state, met, dead, of_ascii, left = self.start, self.met, self.dead, self._of_ascii, MAX_STATES
        for character in text:
            cell = of_ascii.get(character)
            if cell is None:
                cell = bisect_right(self.cell_starts, ord(character)) - 1
            following = state.following.get(cell)
            if following is None:
                following, left = self.follow(state, cell), left - 1
                if not left:  # the text leads to ever new states: each would be worked out and forgotten
                    return _tables_of(self).run(text)
            state = following
            if state is met or state is dead:
                return state is met
        return self.fits_at_end(state)

    def step(self, state: State, character: str) -> State:
        """Return the state after one more character."""
        return self.follow(state, bisect_right(self.cell_starts, ord(character)) - 1)

    def cell_of(self, code: int) -> int:
        """Return the cell of a code point."""
        return bisect_right(self.cell_starts, code) - 1

    def follow(self, state: State, cell: int) -> State:
        """Return the state after one more character of a cell."""
        if state is self.met or state is self.dead:
            return state
        known = state.following.get(cell)
        if known is None:
            known = state.following[cell] = self._work_out(state, cell)
        return known

    def fits_at_end(self, state: State) -> bool:
        """Whether the expression fits if the text ends in this state."""
        if state.fits_at_end is None:
            state.fits_at_end = self._closure(state, _EDGE) is None
        return state.fits_at_end

    def _work_out(self, state: State, cell: int) -> State:
        kind = self._kinds[cell]
        alive = self._closure(state, kind)
        if alive is None:
            return self.met
        taken: set[int] = set()
        counts: dict[int, int] = {}
        for thread in alive:
            i, count = thread & _STEP, thread >> _STEP_BITS
            step = self._steps[i]
            if cell in step.cells and step.run:
                counts[i] = max(counts.get(i, 0), min(count + 1, step.run))
            elif cell in step.cells:
                taken.add(step.ways[0])
        taken.update(i | count << _STEP_BITS for i, count in counts.items())
        if not self._anchored:
            taken.add(0)
        if not taken:
            return self.dead
        found = self._state(tuple(sorted(taken)), kind)
        return self.met if not self._looks and self._closure(found, _OTHER) is None else found

    def _state(self, threads: tuple[int, ...], before: int) -> State:
        key = threads, before
        known = self._states.get(key)
        if known is None:
            if len(self._states) >= MAX_STATES:
                self._forget()
            known = self._states[key] = State(threads, before)
        return known

    def _forget(self) -> None:
        """Drop all states; a text under way keeps the one it is in."""
        kept, self._states = list(self._states.values()), {}
        for state in kept:
            state.following.clear()

    def _closure(self, state: State, after: int) -> list[int] | None:
        """Return the threads that take a character next, given what stands after the position; None: it is a match."""
        seen, waiting, alive = set(state.threads), list(state.threads), []
        while waiting:
            thread = waiting.pop()
            step = self._steps[thread & _STEP]
            if step.chars is not None:
                alive.append(thread)
                if not step.run or thread >> _STEP_BITS < step.run:
                    continue
            elif not step.ways:
                return None
            elif step.anchor is not None and not _holds(step.anchor, state.before, after):
                continue
            for way in step.ways:
                if way not in seen:
                    seen.add(way)
                    waiting.append(way)
        return alive

    def _cut_into_cells(self) -> list[int]:
        ranges = [pair for step in self._steps if step.chars is not None for pair in step.chars.ranges]
        if self._looks:
            ranges += [*WORD, (10, 10)]
        starts = sorted({0, *(low for low, _ in ranges), *(high + 1 for _, high in ranges if high < 0x10FFFF)})
        for step in self._steps:
            if step.chars is not None:
                step.cells = frozenset(_cells(step.chars, starts))
        return starts


@lru_cache(maxsize=4096)
def regex_machine(expression: str, fold: Fold = Fold.NONE) -> RegexMachine:
    r"""Return the machine of an expression, or raise `UnfitError`.

    >>> machine = regex_machine(r"(?i)\bfor(um|t)\b")
    >>> machine.matches("the forum"), machine.matches("forty")
    (True, False)
    """
    return RegexMachine(parse_regex(expression, fold))


class _Tables:
    """The program of a machine as bits, for `run_threads`."""

    def __init__(self, machine: RegexMachine) -> None:
        self._starts, self._is_anchored = np.array(machine.cell_starts), machine._anchored
        self._kinds = np.array(machine._kinds)
        steps, kinds = machine._steps, range(_OTHER + 1)
        self._takes = np.zeros((len(machine.cell_starts), WORDS), np.uint64)
        for i, step in enumerate(steps):
            for cell in step.cells:
                _set_bit(self._takes[cell], i)
        self._closures = np.zeros((len(kinds), len(kinds), len(steps), WORDS), np.uint64)
        for before, after in itertools.product(kinds, kinds if machine._looks else [_OTHER]):
            for i in range(len(steps)):
                alive = machine._closure(State((i,), before), after)
                for step_alive in [MET] if alive is None else alive:
                    _set_bit(self._closures[before, after, i], step_alive)
        if not machine._looks:
            self._closures[:] = self._closures[:1, _OTHER:]
        self._runs = np.array([(i, step.run) for i, step in enumerate(steps) if step.run], np.int64).reshape(-1, 2)

    def run(self, text: str) -> bool:
        """Whether the expression fits somewhere in a text."""
        codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
        cells = np.searchsorted(self._starts, codes, side="right") - 1
        kinds = np.concatenate(([_EDGE], self._kinds[cells], [_EDGE]))
        scratch = np.zeros((2, WORDS), np.uint64)
        counts = np.zeros(len(self._runs), np.int64)
        return bool(
            run_threads(cells, kinds, self._closures, self._takes, self._is_anchored, scratch, self._runs, counts)
        )


@lru_cache(maxsize=64)
def _tables_of(machine: RegexMachine) -> _Tables:
    return _Tables(machine)


def _set_bit(words: npt.NDArray[np.uint64], bit: int) -> None:
    words[bit // 64] |= np.uint64(1) << np.uint64(bit % 64)


class _Compiler:
    """Writes the program of a tree; step 0 is where it starts, and the step without ways is the match."""

    def __init__(self) -> None:
        self._steps: list[_Step] = []

    def program(self, tree: Tree) -> list[_Step]:
        self._write(_open_ended(tree))
        self._add(_Step())
        return self._steps

    def _add(self, step: _Step) -> int:
        if len(self._steps) >= MAX_STEPS:
            raise UnfitError(f"a regular expression of at most {MAX_STEPS} steps, where {{n}} counts n times")
        self._steps.append(step)
        return len(self._steps) - 1

    def _write(self, tree: Tree) -> None:
        """Write the steps of a tree; the step behind them is where it goes on."""
        if isinstance(tree, Chars):
            self._add(_Step((len(self._steps) + 1,), chars=tree))
        elif isinstance(tree, Anchor):
            self._add(_Step((len(self._steps) + 1,), anchor=tree.kind))
        elif isinstance(tree, Seq):
            for part in tree.parts:
                self._write(part)
        elif isinstance(tree, Alt):
            self._either(tree)
        else:
            self._repeat(tree)

    def _either(self, tree: Alt) -> None:
        fork = self._add(_Step())
        begins, ends = [], []
        for part in tree.parts:
            begins.append(len(self._steps))
            self._write(part)
            ends.append(self._add(_Step()))
        self._steps[fork].ways = tuple(begins)
        for end in ends:
            self._steps[end].ways = (len(self._steps),)

    def _repeat(self, tree: Repeat) -> None:
        if isinstance(tree.part, Chars) and tree.most is None and tree.least >= _SHORTEST_RUN:
            self._add(_Step((len(self._steps) + 1,), chars=tree.part, run=tree.least))
            return
        for _ in range(tree.least):
            self._write(tree.part)
        if tree.most is None:
            fork = self._add(_Step())
            self._write(tree.part)
            self._add(_Step((fork,)))
            self._steps[fork].ways = (fork + 1, len(self._steps))
            return
        forks = []
        for _ in range(tree.most - tree.least):
            forks.append(self._add(_Step()))
            self._write(tree.part)
        for fork in forks:
            self._steps[fork].ways = (fork + 1, len(self._steps))


def _open_ended(tree: Tree) -> Tree:
    """Return a tree whose last part has no upper bound: where {n,m} fits at the end, {n,} does, and vice versa."""
    *parts, last = tree.parts if isinstance(tree, Seq) and tree.parts else (tree,)
    if not isinstance(last, Repeat) or not isinstance(last.part, Chars) or last.least < _SHORTEST_RUN:
        return tree
    opened = Repeat(last.part, last.least, None)
    return Seq((*parts, opened)) if parts else opened


def _first(tree: Tree) -> Tree:
    while isinstance(tree, Seq) and tree.parts:
        tree = tree.parts[0]
    return tree


def _cells(chars: Chars, starts: list[int]) -> Iterable[int]:
    for low, high in chars.ranges:
        yield from range(bisect_right(starts, low) - 1, bisect_right(starts, high))


def _kind_of(code: int) -> int:
    if code == 10:
        return _NEWLINE
    return _WORD if any(low <= code <= high for low, high in WORD) else _OTHER


def _holds(anchor: str, before: int, after: int) -> bool:
    if anchor in _BEFORE:
        return before in _BEFORE[anchor]
    if anchor in _AFTER:
        return after in _AFTER[anchor]
    return ((before == _WORD) != (after == _WORD)) == (anchor == "word")
