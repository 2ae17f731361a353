"""Regular expressions as finished machines for `tamis.kernels.text.machine`, where they are small enough."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from tamis.kernels.text.machine import DEAD, IS_MACHINE, MET
from tamis.model.text.folding import Fold
from tamis.model.text.regex import RegexMachine, State, regex_machine

__all__ = ["machine_program"]

#: Cells of a machine, and states times cells; a larger one is made while texts are read (`tamis.model.text.regex`).
MOST_CELLS: Final = 128
MOST_TRANSITIONS: Final = 4_096


@lru_cache(maxsize=4096)
def machine_program(expression: str, fold: Fold) -> bytes | None:
    """Return the program of an expression; None when it would be too large."""
    machine = regex_machine(expression, fold)
    starts = machine.cell_starts
    if len(starts) > MOST_CELLS:
        return None
    states = _states(machine, len(starts))
    if states is None:
        return None
    numbers = {id(state): number for number, state in enumerate(states)} | {
        id(machine.met): MET,
        id(machine.dead): DEAD,
    }
    cells = [machine.cell_of(code) for code in range(128)]
    follows = [numbers[id(machine.follow(state, cell))] for state in states for cell in range(len(starts))]
    return b"".join(
        [
            bytes([IS_MACHINE, len(starts)]),
            len(states).to_bytes(2, "little"),
            bytes(cells),
            *(start.to_bytes(3, "little") for start in starts),
            bytes(machine.fits_at_end(state) for state in states),
            *(number.to_bytes(2, "little") for number in follows),
        ]
    )


def _states(machine: RegexMachine, n_cells: int) -> list[State] | None:
    """Return all states that texts can lead to, the first one first; None when they are too many."""
    found, waiting = {id(machine.start): machine.start}, [machine.start]
    ends = {id(machine.met), id(machine.dead)}
    while waiting:
        state = waiting.pop()
        for cell in range(n_cells):
            following = machine.follow(state, cell)
            if id(following) not in found and id(following) not in ends:
                found[id(following)] = following
                waiting.append(following)
        if len(found) * n_cells > MOST_TRANSITIONS:
            return None
    return list(found.values())
