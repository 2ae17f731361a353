"""Finished machines in the kernel: they agree with `re`, are small, and can be made by several threads at once."""

from __future__ import annotations

import random
import re
import threading

import numpy as np
import pytest

from tamis.index.packed.texts.machines import machine_program
from tamis.kernels.text.machine import HEADER, fits_machine
from tamis.model.text.folding import Fold
from tamis.model.text.regex import RegexMachine, regex_machine
from tamis.model.text.regex_syntax import parse_regex

ATOMS = [
    "a",
    "z",
    "é",
    "ß",
    "字",
    "😀",
    "[a-m]",
    "[é-ü]",
    "[^aé]",
    ".",
    r"\d",
    "[字-宇]",
    r"\bz",
    "(?:a|字|ö)",
    "(?:(?:zé)+)",
]
LETTERS = "aamz09 é\u00e8üß字孔宇😀😁\n\x7f\x80"


def _cells(program: bytes) -> int:
    return program[1]


def _states(program: bytes) -> int:
    return int.from_bytes(program[2:4], "little")


def _fits(program: bytes, text: str) -> bool:
    code, data = np.frombuffer(program, np.uint8).copy(), np.frombuffer(text.encode(), np.uint8).copy()
    return bool(fits_machine(code, 0, len(code), data, 0, len(data)))


def test_programs_match_as_in_python_beyond_ascii() -> None:
    rng, n_programs = random.Random(5), 0
    for _ in range(400):
        parts = [rng.choice(ATOMS) + rng.choice(["", "", "*", "?", "{2}"]) for _ in range(rng.randint(1, 4))]
        expression = rng.choice(["", "", "^", ".*"]) + "".join(parts) + rng.choice(["", "", "$"])
        program = machine_program(expression, Fold.NONE)
        if program is None:
            continue
        n_programs += 1
        expected = re.compile(expression.replace("$", r"\Z"), re.ASCII)
        for _ in range(15):
            text = "".join(rng.choice(LETTERS) for _ in range(rng.randint(0, 6)))
            assert _fits(program, text) == bool(expected.search(text)), (expression, text)
    assert n_programs > 300


def test_characters_that_all_steps_treat_alike_are_one_cell() -> None:
    program = machine_program("cat|dog|tap", Fold.NONE)
    assert program is not None
    assert _cells(program) == len(set("catdogtap")) + 1
    assert len(program) == HEADER + 3 * _cells(program) + _states(program) * (1 + 2 * _cells(program))


@pytest.mark.parametrize(
    ("long", "short"),
    [
        (".*cat", "cat"),
        ("[a-z]*?cat", "cat"),
        ("x{2,}cat", "x{2}cat"),
        ("x{40,60}cat", "x{40,}cat"),
        (".*cat|.?dog", "cat|dog"),
    ],
)
def test_what_may_begin_later_is_not_repeated_at_the_start(long: str, short: str) -> None:
    assert machine_program(long, Fold.NONE) == machine_program(short, Fold.NONE)


def test_a_start_that_is_anchored_is_kept() -> None:
    program = machine_program("^.*cat", Fold.NONE)
    assert program is not None
    assert _fits(program, "a cat")
    assert not _fits(program, "a\ncat")


def test_a_program_leaves_no_states_behind() -> None:
    expression = "left (behind|alone)+ here"
    assert machine_program(expression, Fold.NONE) is not None
    machine = regex_machine(expression, Fold.NONE)
    assert not machine._states
    assert not machine.start.following
    assert machine.matches("it was left behind here")


def test_several_threads_may_make_the_same_program() -> None:
    expression = "(?i)many[a-f]{1,9}threads[0-9]{1,9}x"
    expected = machine_program.__wrapped__(expression, Fold.NONE)
    keys: list[bytes | None] = []
    for _ in range(10):
        regex_machine.cache_clear()
        makers = [
            threading.Thread(target=lambda: keys.append(machine_program.__wrapped__(expression, Fold.NONE)))
            for _ in range(4)
        ]
        for maker in makers:
            maker.start()
        for maker in makers:
            maker.join()
    assert len(keys) == 40
    for program in keys:
        assert program is not None
        assert expected is not None
        for text in ("MANYabTHREADS12x", "manythreads1x", "many" + "f" * 10 + "threads1x"):
            folded = text.casefold()
            assert (
                _fits(program, folded)
                == _fits(expected, folded)
                == RegexMachine(parse_regex(expression)).matches(folded)
            )
