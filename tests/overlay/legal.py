"""The legal state of a distributed R-tree (promise O1), seen from above: only tests may."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tamis.overlay.measures import sizes
from tamis.overlay.seat import Seat


def illegal(seats: Iterable[Seat], *, best_covers: bool = True) -> list[str]:
    """Return every sentence of O1 that does not hold; nothing when the state is legal."""
    by_name = {seat.name: seat for seat in seats}
    faults = [fault for seat in by_name.values() for fault in _faults_of(seat, by_name, best_covers)]
    roots = [seat.name for seat in by_name.values() if seat.parent is None]
    if by_name and len(roots) != 1:
        faults.append(f"{len(roots)} roots: {roots[:5]}")
    reached: set[str] = set()
    waiting = roots[:1]
    while waiting:
        name = waiting.pop()
        if name in reached:
            faults.append(f"{name} is reached twice")
            continue
        reached.add(name)
        waiting += [
            child for level in by_name[name].levels for child in level.names if child != name and child in by_name
        ]
    if by_name.keys() - reached:
        faults.append(f"not reached from the root: {sorted(by_name.keys() - reached)[:5]}")
    return faults


def _faults_of(seat: Seat, by_name: dict[str, Seat], best_covers: bool) -> Iterable[str]:
    shape = seat.shape
    if seat.is_reshaping:
        yield f"{seat.name} is in the middle of something"
    parent = by_name.get(seat.parent) if seat.parent is not None else None
    if seat.parent is not None and (parent is None or parent.top <= seat.top):
        yield f"{seat.name} (top {seat.top}) has no parent {seat.parent}"
    elif parent is not None and seat.name not in parent.levels[seat.top]:
        yield f"{seat.name} is not a child of its parent {seat.parent}"
    for at, level in enumerate(seat.levels, 1):
        is_root = seat.parent is None and at == seat.top
        if not (2 if is_root else shape.least) <= len(level) <= shape.most:
            yield f"{seat.name} has {len(level)} children at level {at}"
        if level.leaving:
            yield f"{seat.name} has leaving children at level {at}: {sorted(level.leaving)}"
        if seat.name not in level.names or len(set(level.names)) < len(level.names):
            yield f"{seat.name} at level {at} has children {level.names}"
            continue
        for row, name in enumerate(level.names):
            child = by_name.get(name)
            if child is None:
                yield f"{seat.name} has an unknown child {name} at level {at}"
                continue
            if name != seat.name and (child.top != at - 1 or child.parent != seat.name):
                yield f"{seat.name}'s child {name} at level {at} has top {child.top}, parent {child.parent}"
            elif not np.array_equal(child.mbr(at - 1), level.boxes[row]):
                yield f"{seat.name} has a wrong MBR of {name} at level {at}"
        mine, best = sizes(level.box(seat.name)[None])[0], max(map(tuple, sizes(level.boxes)))
        if best_covers and tuple(mine) < best:
            yield f"{seat.name} is not the best cover at level {at}"
