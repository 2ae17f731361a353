"""Regular expressions in linear time: a nondeterministic automaton that is made deterministic on demand.

A tree (`regex_syntax`) becomes a program of steps: take a character out of a set, go two ways, check a position. The
threads that are alive after some text, a bit each, are a *state*; a state and the cell of the next character give the
next state, which is worked out once and kept. At most `MAX_STATES` are kept: when there are more, all are forgotten,
and work goes on from the one in use. So a character costs one look-up. A text that leads to more new states than are
kept is read by a kernel instead (`tamis.kernels.text.threads`), at worst a pass over the program of at most `MAX_STEPS`
steps per character: no text and no expression takes more than linear time.

The question is whether the expression fits *somewhere* in the text, so a match ends the walk. The ends of all ranges
cut the code points into parts; parts that all steps treat alike are one *cell*.
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
from tamis.model.text.regex_syntax import WORD, Alt, Assertion, Chars, Regex, Repeat, Seq, Tree, parse_regex
from tamis.model.values import UnfitError

__all__ = ["MAX_STATES", "MAX_STEPS", "MachineState", "RegexMachine", "regex_machine"]

#: Steps of a program; a repetition {n} is n copies, a run is a single step.
MAX_STEPS: Final = 500
#: States that a machine keeps.
MAX_STATES: Final = 2_000
#: A repetition of one character without an upper bound is a *run* from this number on. The thread that entered it first
#: has counted the most, and whatever another thread reaches it has reached before: a state has one count for a run.
_SHORTEST_RUN: Final = 33
#: What stands before or after a position.
_EDGE, _WORD, _NEWLINE, _OTHER = range(4)

_BEFORE: Final = {"begin": (_EDGE,), "line_begin": (_EDGE, _NEWLINE)}
_AFTER: Final = {"end": (_EDGE,), "line_end": (_EDGE, _NEWLINE)}


@dataclass(slots=True)
class _Step:
    """One step: take a character of ``chars``, check ``anchor``, or go on at ``ways`` (several, or none: the match)."""

    ways: tuple[int, ...] = ()
    chars: Chars | None = None
    anchor: str | None = None
    #: Characters that a run takes before it may end; 0: the step takes a single character.
    run: int = 0


@dataclass(slots=True, eq=False)
class MachineState:
    """Threads alive after some text as bits, what each run has counted, and what stands before the position."""

    threads: int
    counts: tuple[int, ...]
    before: int
    #: The next state by cell, and the threads that take a character by what stands after the position.
    following: dict[int, MachineState] = field(default_factory=dict)
    alive: dict[int, int] = field(default_factory=dict)
    #: Whether the expression fits when the text ends here; None: not worked out yet.
    fits_at_end: bool | None = None


class RegexMachine:
    """Decides for any text whether an expression fits somewhere in it; ``fold`` says how the text is to be folded."""

    def __init__(self, regex: Regex) -> None:
        tree = _searched(regex.tree)
        self.fold = regex.fold
        self._program = _Program(tree)
        #: Whether a match can only begin where the text begins.
        self._anchored = _first(tree) == Assertion("begin")
        self.cells = _Cells(self._program)
        self._states: dict[tuple[int, tuple[int, ...], int], MachineState] = {}
        #: The state that threads lead to which take a character, by these threads and what comes next.
        self._taken: dict[tuple[int, tuple[int, ...], int], MachineState] = {}
        #: The state that has found a match, and the one that never will.
        self.met, self.dead = (
            MachineState(0, (), _OTHER, fits_at_end=True),
            MachineState(0, (), _OTHER, fits_at_end=False),
        )
        self.start = self._state(1, (0,) * len(self._program.runs), _EDGE)

    def matches(self, text: str) -> bool:
        """Whether the expression fits somewhere in a text that is folded already."""
        state, met, dead, of_ascii, left = self.start, self.met, self.dead, self.cells.of_ascii, MAX_STATES
        for character in text:
            cell = of_ascii.get(character)
            if cell is None:
                cell = self.cells.of(ord(character))
            following = state.following.get(cell)
            if following is None:
                following, left = self.follow(state, cell), left - 1
                if not left:  # the text leads to ever new states: each would be worked out and forgotten
                    return _tables_of(self).run(text)
            state = following
            if state is met or state is dead:
                return state is met
        return self.fits_at_end(state)

    def step(self, state: MachineState, character: str) -> MachineState:
        """Return the state after one more character."""
        return self.follow(state, self.cells.of(ord(character)))

    def follow(self, state: MachineState, cell: int) -> MachineState:
        """Return the state after one more character of a cell."""
        if state is self.met or state is self.dead:
            return state
        following = state.following.get(cell)
        if following is None:
            following = state.following[cell] = self._work_out(state, cell)
        return following

    def fits_at_end(self, state: MachineState) -> bool:
        """Whether the expression fits if the text ends in this state."""
        if state.fits_at_end is None:
            state.fits_at_end = bool(self._program.alive(state, _EDGE) & self._program.met)
        return state.fits_at_end

    def _work_out(self, state: MachineState, cell: int) -> MachineState:
        kind = self.cells.kinds[cell]
        alive = self._program.alive(state, kind)
        if alive & self._program.met:
            return self.met
        key = alive & self.cells.takes[cell], state.counts, kind
        next_state = self._taken.get(key)
        if next_state is None:
            next_state = self._taken[key] = self._after(*key)
        return next_state

    def _after(self, taken: int, counts: tuple[int, ...], kind: int) -> MachineState:
        """Return the state after these threads have taken a character."""
        threads, counts = self._program.moved(taken, counts)
        if not self._anchored:
            threads |= 1
        if not threads:
            return self.dead
        reached_state = self._state(threads, counts, kind)
        is_met = not self._program.looks and reached_state.threads & self._program.met
        return self.met if is_met else reached_state

    def _state(self, threads: int, counts: tuple[int, ...], before: int) -> MachineState:
        if not self._program.looks:  # what stands beside a position changes nothing: threads are closed at once
            before = _OTHER
            threads = self._program.closed(threads, counts, _OTHER, _OTHER)
        key = threads, counts, before
        reached_state = self._states.get(key)
        if reached_state is None:
            if len(self._states) >= MAX_STATES:
                self.forget()
            reached_state = self._states[key] = MachineState(threads, counts, before)
        return reached_state

    def forget(self) -> None:
        """Drop all states; a text under way keeps the one it is in."""
        kept, self._states, self._taken = [self.start, *self._states.values()], {}, {}
        for state in kept:
            state.following.clear()


class _Program:
    """The steps of an expression, and where threads go from each."""

    def __init__(self, tree: Tree) -> None:
        self.steps = _Compiler().program(tree)
        self.looks = any(step.anchor is not None for step in self.steps)
        #: The steps that are runs, and the bit that says that the expression was met.
        self.runs = [(i, step.run) for i, step in enumerate(self.steps) if step.run]
        self.met = 1 << len(self.steps)
        self._reached: dict[tuple[int, int, int], int] = {}

    def alive(self, state: MachineState, after: int) -> int:
        """Return the threads that take a character next, given what stands after the position."""
        if not self.looks:
            return state.threads
        alive = state.alive.get(after)
        if alive is None:
            alive = state.alive[after] = self.closed(state.threads, state.counts, state.before, after)
        return alive

    def closed(self, threads: int, counts: tuple[int, ...], before: int, after: int) -> int:
        """Return the steps that threads reach which take a character, and the bit of a match."""
        closure = threads & self.met
        for i in _bits(threads & ~self.met):
            closure |= self.reached(i, before, after)
        for (i, run), count in zip(self.runs, counts, strict=True):
            if threads >> i & 1 and count >= run:
                closure |= self.reached(self.steps[i].ways[0], before, after)
        return closure

    def reached(self, first: int, before: int, after: int) -> int:
        """Return the steps that one leads to without a character, itself included, which take one."""
        key = first, before, after
        remembered = self._reached.get(key)
        if remembered is not None:
            return remembered
        seen, waiting, closure = {first}, [first], 0
        while waiting:
            i = waiting.pop()
            step = self.steps[i]
            if step.chars is not None:
                closure |= 1 << i
                continue
            if not step.ways:
                closure |= self.met
            if step.anchor is not None and not _holds(step.anchor, before, after):
                continue
            for way in step.ways:
                if way not in seen:
                    seen.add(way)
                    waiting.append(way)
        self._reached[key] = closure
        return closure

    def moved(self, taken: int, counts: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
        """Return the threads after each of ``taken`` took a character; a run stays, and counts.

        A run that was just entered has counted nothing. One that is entered again goes on with what it has.
        """
        threads = 0
        for i in _bits(taken):
            threads |= 1 << (i if self.steps[i].run else self.steps[i].ways[0])
        if not self.runs:
            return threads, counts
        runs = zip(self.runs, counts, strict=True)
        return threads, tuple(min(count + 1, run) if taken >> i & 1 else 0 for (i, run), count in runs)


class _Cells:
    """Characters by what all steps make of them."""

    def __init__(self, program: _Program) -> None:
        ranges = [pair for step in program.steps if step.chars is not None for pair in step.chars.ranges]
        if program.looks:
            ranges += [*WORD, (10, 10)]
        #: The first code point of each part, ascending from 0.
        self.starts = sorted({0, *(low for low, _ in ranges), *(high + 1 for _, high in ranges if high < 0x10FFFF)})
        masks = [0] * len(self.starts)
        for i, step in enumerate(program.steps):
            for low, high in step.chars.ranges if step.chars is not None else ():
                for part in range(bisect_right(self.starts, low) - 1, bisect_right(self.starts, high)):
                    masks[part] |= 1 << i
        kinds = [_kind_of(code) if program.looks else _OTHER for code in self.starts]
        numbers: dict[tuple[int, int], int] = {}
        #: The cell of each part; the steps that take a character of each cell, and what such a character is.
        self.of_parts = [numbers.setdefault(key, len(numbers)) for key in zip(masks, kinds, strict=True)]
        self.takes, self.kinds = [mask for mask, _ in numbers], [kind for _, kind in numbers]
        self.of_ascii = {chr(code): self.of(code) for code in range(128)}

    def __len__(self) -> int:
        return len(self.takes)

    def of(self, code: int) -> int:
        """Return the cell of a code point."""
        return self.of_parts[bisect_right(self.starts, code) - 1]


def _bits(mask: int) -> Iterable[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


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
        program, cells, kinds = machine._program, machine.cells, range(_OTHER + 1)
        self._starts, self._cells = np.array(cells.starts), np.array(cells.of_parts)
        self._kinds, self._is_anchored = np.array(cells.kinds), machine._anchored
        self._takes = np.zeros((len(cells), WORDS), np.uint64)
        for cell, takes in enumerate(cells.takes):
            _set_bits(self._takes[cell], takes)
        self._closures = np.zeros((len(kinds), len(kinds), len(program.steps), WORDS), np.uint64)
        for before, after in itertools.product(kinds, kinds):
            for i in range(len(program.steps)):
                reached = program.reached(i, before, after)
                _set_bits(self._closures[before, after, i], 1 << MET if reached & program.met else reached)
        self._runs = np.array(program.runs, np.int64).reshape(-1, 2)

    def run(self, text: str) -> bool:
        """Whether the expression fits somewhere in a text."""
        codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
        cells = self._cells[np.searchsorted(self._starts, codes, side="right") - 1]
        kinds = np.concatenate(([_EDGE], self._kinds[cells], [_EDGE]))
        scratch = np.zeros((2, WORDS), np.uint64)
        counts = np.zeros(len(self._runs), np.int64)
        return bool(
            run_threads(cells, kinds, self._closures, self._takes, self._is_anchored, scratch, self._runs, counts)
        )


@lru_cache(maxsize=64)
def _tables_of(machine: RegexMachine) -> _Tables:
    return _Tables(machine)


def _set_bits(words: npt.NDArray[np.uint64], mask: int) -> None:
    for bit in _bits(mask):
        words[bit // 64] |= np.uint64(1) << np.uint64(bit % 64)


class _Compiler:
    """Compiles a tree to a program; step 0 is the start, and the step without ways is the match."""

    def __init__(self) -> None:
        self._steps: list[_Step] = []

    def program(self, tree: Tree) -> list[_Step]:
        self._write(_open_ended(tree))
        self._add(_Step())
        return self._steps

    def _add(self, step: _Step) -> int:
        if len(self._steps) >= MAX_STEPS:
            raise UnfitError(
                f"a regular expression has at most {MAX_STEPS} steps, where {{n}} counts n times; ask for less"
            )
        self._steps.append(step)
        return len(self._steps) - 1

    def _write(self, tree: Tree) -> None:
        """Write the steps of a tree; execution continues at the step after them."""
        if isinstance(tree, Chars):
            self._add(_Step((len(self._steps) + 1,), chars=tree))
        elif isinstance(tree, Assertion):
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


def _searched(tree: Tree) -> Tree:
    """Return a tree that fits somewhere in the same texts: what may begin later need not be repeated at the start."""
    if isinstance(tree, Alt):
        return Alt(tuple(_searched(part) for part in tree.parts))
    first, *rest = tree.parts if isinstance(tree, Seq) and tree.parts else (tree,)
    if not isinstance(first, Repeat) or not isinstance(first.part, Chars) or first.most == first.least:
        return tree
    if not first.least:
        return _searched(Seq(tuple(rest)))
    most = None if first.least >= _SHORTEST_RUN else first.least  # a long run without an upper bound is a single step
    return Seq((Repeat(first.part, first.least, most), *rest))


def _first(tree: Tree) -> Tree:
    while isinstance(tree, Seq) and tree.parts:
        tree = tree.parts[0]
    return tree


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
