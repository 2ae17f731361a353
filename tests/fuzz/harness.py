"""What all fuzzers of untrusted input share: inputs by number, what counts as a finding, and the command line.

An input is made from the seed and its own number, so a finding is made again by ``--first N --inputs 1``. Treating an
input returns a word for what came of it. Any exception is a finding, and so is more than `SLOW_UNITS` of CPU time. On
the command line inputs are treated in a process of their own: one that dies is a finding, too, with its number.
"""

from __future__ import annotations

import argparse
import mmap
import os
import random
import struct
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from tests.effort import unit_seconds

#: Units of work, about 5 ms each, that one input may take.
SLOW_UNITS = 40.0

_NUMBER = struct.Struct("<q")

Choice = TypeVar("Choice")


class Area(NamedTuple):
    """One door: how its input is made, and how it is treated."""

    name: str
    make: Callable[[random.Random], Any]
    treat: Callable[[Any], str]


class Finding(NamedTuple):
    """The number of an input, what went wrong, and the input."""

    number: int
    problem: str
    source: Any

    def line(self, area: str, seed: int) -> str:
        """Return how to make it again."""
        again = f"python -m tests.fuzz.{area} 60 --seed {seed} --first {self.number} --inputs 1"
        return f"{again}  # {self.problem}\n{repr(self.source)[:2_000]}"


class QuickRandom(random.Random):
    """Chooses by one float instead of drawing bits until they fit: half of the time of a run was spent on that.

    >>> QuickRandom(1).choice("abc") in "abc"
    True
    """

    def choice(self, seq: Sequence[Choice]) -> Choice:  # type: ignore[override]  # narrower than the stubs
        return seq[int(self.random() * len(seq))]


def source_of(area: Area, seed: int, number: int) -> Any:
    """Return one input."""
    return area.make(QuickRandom(seed << 48 | number))


def fuzz(
    area: Area,
    seed: int,
    inputs: float,
    seconds: float = float("inf"),
    first: int = 0,
    begin: Callable[[int], None] = lambda number: None,
) -> tuple[Counter[str], Finding | None]:
    """Treat inputs until the time or their number is over; return what came of them, and the first finding."""
    outcomes: Counter[str] = Counter()
    end, number, most = time.monotonic() + seconds, first, SLOW_UNITS * unit_seconds()
    while number - first < inputs and time.monotonic() < end:
        begin(number)
        source = source_of(area, seed, number)
        problem = ""
        for attempt in range(3):  # a pause of the garbage collector is not a finding
            start = time.thread_time()
            try:
                outcome = area.treat(source)
            except Exception as error:
                problem = f"{type(error).__name__}: {str(error)[:200]}\n{traceback.format_exc(limit=-3)}"
                break
            if time.thread_time() - start <= most:
                break
            problem = f"more than {SLOW_UNITS:g} units of work" if attempt == 2 else ""
        if problem:
            return outcomes, Finding(number, problem, source)
        outcomes[outcome] += 1
        number += 1
    return outcomes, None


def main(area: Area, arguments: list[str] | None = None) -> int:
    """Run from the command line; return the exit code."""
    parser = argparse.ArgumentParser(description=f"Random input: {area.name}.")
    parser.add_argument("seconds", type=float)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--inputs", type=float, default=float("inf"))
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args(arguments)
    seed = random.SystemRandom().randrange(2**32) if options.seed is None else options.seed
    progress = mmap.mmap(-1, _NUMBER.size)  # shared with the child
    child = os.fork()
    if child == 0:
        code = 2
        try:
            code = _report(area, seed, options, progress)
        finally:
            sys.stdout.flush()
            os._exit(code)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        (number,) = _NUMBER.unpack(progress[:])
        problem = f"the process died of signal {os.WTERMSIG(status)}"
        print(Finding(number, problem, source_of(area, seed, number)).line(area.name, seed))
        return 1
    return os.waitstatus_to_exitcode(status)


def _report(area: Area, seed: int, options: argparse.Namespace, progress: mmap.mmap) -> int:
    def begin(number: int) -> None:
        progress[:] = _NUMBER.pack(number)

    outcomes, finding = fuzz(area, seed, options.inputs, options.seconds, options.first, begin)
    print(f"{area.name}, seed {seed}: {sum(outcomes.values()):,} inputs")
    for outcome, count in outcomes.most_common():
        print(f"  {count:9,}  {outcome}")
    if finding is not None:
        print(finding.line(area.name, seed))
    return int(finding is not None)


# ---- damage that every format takes


def damaged_text(rng: random.Random, text: str, spice: str) -> str:
    """Return a text with one thing wrong."""
    at, other = rng.randrange(len(text) + 1), rng.randrange(len(text) + 1)
    low, high = min(at, other), max(at, other)
    return rng.choice(
        [
            text[:at],
            text[at:],
            text[:low] + text[high:],
            text[:high] + text[low:],
            text[:at] + rng.choice(spice) * rng.choice([1, 1, 2, 40, 3_000]) + text[at:],
            text[:at] + chr(rng.choice([0, 127, 0x80, 0x2028, 0xD800, 0xFFFF, 0x10FFFF])) + text[at:],
            text.swapcase(),
        ]
    )


def damaged_bytes(rng: random.Random, data: bytes) -> bytes:
    """Return bytes with one thing wrong."""
    at = rng.randrange(len(data) + 1)
    return rng.choice(
        [
            data[:at],
            data[at:],
            data[:at] + rng.randbytes(rng.choice([1, 2, 8])) + data[at:],
            data[:at] + rng.choice([b"\x00", b"\xff", b"\x80", b"\x7f"]) * rng.choice([1, 4, 8]) + data[at + 4 :],
            data + data,
        ]
    )


#: JSON values that parsers and limits look at.
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -0.0, 1, -1, 1.5, 1e308, -1e-308, 2**53 + 1, 2**63, -(2**63) - 1, 10**400),
    *("", "x", "\u00e9", "\U0001f600", "\ud800", "a" * 5_000, "2026-01-31T12:00:00Z", "POINT(1 2)", "\x00"),
    *([], {}, [[]], [0, "x"], {"a": {"b": {}}}, {"/": "1/3"}, {"type": "Point", "coordinates": [0, 0]}),
    *(float("inf"), float("nan")),
)


def document(rng: random.Random, levels: int = 3) -> Any:
    """Return a JSON value."""
    choice = rng.random()
    if levels == 0 or choice < 0.5:
        return rng.choice(VALUES)
    if choice < 0.7:
        return [document(rng, levels - 1) for _ in range(rng.choice([0, 1, 2, 5]))]
    if choice < 0.97:
        return {name(rng): document(rng, levels - 1) for _ in range(rng.choice([0, 1, 2, 5]))}
    nested: Any = rng.choice(VALUES)
    for _ in range(rng.choice([30, 31, 32, 33, 200])):
        nested = rng.choice([[nested], {"a": nested}])
    return nested


def name(rng: random.Random) -> str:
    """Return the name of an attribute or a field."""
    return rng.choice(["a", "b", "n", "s", "at", "area", "", "\ud800", "\u00e9", "x" * 300, "__proto__", "a\x00"])
