"""Regular expressions as finished machines for `tamis.kernels.text.machine`, where they are small enough."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from tamis.kernels.text.machine import DEAD, IS_MACHINE, MET
from tamis.model.text.folding import Fold
from tamis.model.text.regex import MachineState, RegexMachine, regex_machine

__all__ = ["machine_program"]

#: Cells of a machine, and states times cells; a larger one is made while texts are read (`tamis.model.text.regex`).
MOST_CELLS: Final = 128
MOST_TRANSITIONS: Final = 4_096
#: Where a cell begins that no code point beyond ASCII is in.
BEHIND_ALL: Final = 0xFFFFFF


@lru_cache(maxsize=4096)
def machine_program(expression: str, fold: Fold) -> bytes | None:
    """Return the program of an expression; None when it would be too large."""
    machine = regex_machine(expression, fold)
    starts, cells, ascii = _program_cells(machine)
    if len(starts) > MOST_CELLS:
        return None
    rows = _rows(machine, len(starts))
    if rows is None:
        return None
    numbers = {state: number for number, state in enumerate(rows)} | {machine.met: MET, machine.dead: DEAD}
    follows = [numbers[row[cell]] for row in rows.values() for cell in cells]
    ends = bytes(machine.fits_at_end(state) for state in rows)
    machine.forget()  # the program has them all, and takes a hundredth of their room
    return b"".join(
        [
            bytes([IS_MACHINE, len(starts)]),
            len(rows).to_bytes(2, "little"),
            bytes(ascii),
            *(start.to_bytes(3, "little") for start in starts),
            ends,
            *(number.to_bytes(2, "little") for number in follows),
        ]
    )


def _program_cells(machine: RegexMachine) -> tuple[list[int], list[int], list[int]]:
    """Return the first code point of each cell of a program, the machine's cell that it is, and that of each ASCII one.

    Cells beyond ASCII are looked up by their first code points, so each stands for itself; the others share them, or
    stand behind all code points.
    """
    of, parts = machine.cells.of, machine.cells.starts
    starts = [start for start in parts if start > 128]
    starts.insert(0, 128)
    cells = [of(start) for start in starts]
    for cell in dict.fromkeys(of(code) for code in range(128)):
        if cell not in cells:
            starts.append(BEHIND_ALL)
            cells.append(cell)
    return starts, cells, [cells.index(of(code)) for code in range(128)]


def _rows(machine: RegexMachine, n_cells: int) -> dict[MachineState, list[MachineState]] | None:
    """Return the states that texts can lead to, the start first, each with its next states by cell; None: too many."""
    rows, waiting, ends = dict[MachineState, list[MachineState]](), {machine.start: None}, (machine.met, machine.dead)
    while waiting:
        state, _ = waiting.popitem()
        rows[state] = [machine.follow(state, cell) for cell in range(len(machine.cells))]
        waiting |= dict.fromkeys(target for target in rows[state] if target not in rows and target not in ends)
        if (len(rows) + len(waiting)) * n_cells > MOST_TRANSITIONS:
            return None
    return rows
