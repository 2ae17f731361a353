"""The ranges of neighbours on disk: one record per block of keys, so that a change writes only the blocks it touches.

The keys of a space are divided into at most `BLOCKS` blocks of equal width. A block record holds the ranges within its
block, cut at its ends; a block without ranges has no record. The *head* record of a neighbour and namespace is an empty
snapshot plan, which says which spaces the blocks belong to. For a neighbour whose cells differ from ours, which is
forwarded everything, the head is a snapshot of all keys instead. Heads that were written before there were blocks are
snapshots, too: a head with ranges is read as it is, and written again as blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from tamis.errors import ModelError
from tamis.node import records
from tamis.node.effects import Key, Link, Persist

if TYPE_CHECKING:
    from tamis.curves.runs import Runs
    from tamis.index.mics.link import RangeReceiver
    from tamis.index.mics.plan import RangeDelta, RangePlan
    from tamis.index.mics.space import ContentSpace

__all__ = ["StoredRanges", "changed_blocks", "read_ranges"]

#: Blocks of one space. A narrow subscription touches a few of them, a subscription without bounds all.
BLOCKS = 1_024

_INT = np.dtype("<i8")


class StoredRanges:
    """The stored ranges of one neighbour and namespace: the plan, and whether it must be written again."""

    def __init__(self, plan: RangePlan) -> None:
        self.plan = plan
        #: The changes that delete records that do not belong to the plan.
        self.stale: list[Persist] = []
        #: Whether the blocks on disk agree with the plan.
        self.is_current = True


def changed_blocks(
    receiver: RangeReceiver, deltas: Sequence[RangeDelta], source: Link, namespace: str
) -> Iterator[Persist]:
    """Yield the records of the blocks that a change touches, in their state after it.

    The table is read once for each stretch of neighbouring blocks, because a wide range touches hundreds of them.
    """
    for number, (space, delta) in enumerate(zip(receiver.spaces, deltas, strict=True)):
        width = _width(space)
        for stretch in _touched(delta, width):
            runs = receiver.within(number, stretch[0] * width, min((stretch[-1] + 1) * width, space.n_keys) - 1)
            for block, own_runs in _cut_at_blocks(runs, stretch, width):
                parts = (source, namespace, str(number), str(block))
                if len(own_runs):
                    yield records.BLOCK.put(*parts, value=own_runs.astype(_INT).tobytes())
                else:
                    yield records.BLOCK.drop(*parts)


def read_ranges(
    stored: Mapping[Key, bytes], spaces: Sequence[ContentSpace]
) -> Iterator[tuple[tuple[Link, str], StoredRanges]]:
    """Yield the stored ranges by neighbour and namespace."""
    from tamis.index.mics.link import version_of
    from tamis.index.mics.plan import RangePlan

    blocks: dict[tuple[str, str], list[tuple[int, int, bytes]]] = {}
    for (source, namespace, space, block), value in records.BLOCK.items(stored):
        blocks.setdefault((source, namespace), []).append((int(space), int(block), value))
    for (source, namespace), value in sorted(records.RANGES.items(stored)):
        head = StoredRanges(RangePlan.from_bytes(value))
        own_blocks = sorted(blocks.get((source, namespace), ()))
        if head.plan.version == version_of(spaces) and not head.plan.n_ranges:
            head.plan = _joined(head.plan, spaces, own_blocks)
        else:
            head.is_current = False
            head.stale = [
                records.BLOCK.drop(source, namespace, str(space), str(block)) for space, block, _ in own_blocks
            ]
        yield (source, namespace), head


def _joined(head: RangePlan, spaces: Sequence[ContentSpace], blocks: Sequence[tuple[int, int, bytes]]) -> RangePlan:
    """Return the snapshot made of an empty one and its blocks."""
    from tamis.curves.runs import NO_RUNS, merged
    from tamis.index.mics.plan import RangeDelta, RangePlan

    parts: list[list[Runs]] = [[] for _ in spaces]
    for space, block, value in blocks:
        if len(value) % (2 * _INT.itemsize) or space >= len(spaces):
            raise ModelError(f"block {block} of space {space} holds {len(value)} bytes, which are not ranges")
        parts[space].append(np.frombuffer(value, _INT).astype(np.int64).reshape(-1, 2))
    unions = (merged(np.concatenate([NO_RUNS, *runs])) for runs in parts)
    return RangePlan(head.version, tuple(RangeDelta(union, NO_RUNS) for union in unions), is_full=True)


def _width(space: ContentSpace) -> int:
    """Return the number of keys in a block."""
    return -(-space.n_keys // BLOCKS)


def _touched(delta: RangeDelta, width: int) -> list[range]:
    """Return the blocks that a change touches, as stretches of neighbouring blocks, ascending."""
    from tamis.curves.runs import merged

    blocks = merged(np.concatenate([delta.added, delta.removed]) // width)
    return [range(first, last + 1) for first, last in blocks.tolist()]


def _cut_at_blocks(runs: Runs, blocks: range, width: int) -> Iterator[tuple[int, Runs]]:
    """Yield each of some neighbouring blocks with its part of the ranges, which do not leave these blocks."""
    first_block, last_block = runs[:, 0] // width, runs[:, 1] // width
    counts = last_block - first_block + 1
    run = np.repeat(np.arange(len(runs)), counts)
    block = first_block[run] + np.arange(len(run)) - np.repeat(np.cumsum(counts) - counts, counts)
    pieces = np.stack(
        (np.maximum(runs[run, 0], block * width), np.minimum(runs[run, 1], (block + 1) * width - 1)), axis=1
    )
    ends = np.searchsorted(block, np.arange(blocks.start, blocks.stop + 1)).tolist()
    for number, (start, stop) in zip(blocks, pairwise(ends), strict=True):
        yield number, pieces[start:stop]
