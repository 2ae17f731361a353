"""Inside the workers: the rules that a version holds, read from its parts without opening an index."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tamis.engine.snapshot.manifest import Part
from tamis.engine.snapshot.parts import SavedPart
from tamis.spark.snapshots.fingerprints import Buckets, Hashes, bucket_sums, key_hashes, rule_prints
from tamis.spark.snapshots.reading import read_part_of, repeated

__all__ = ["SUMS", "ChosenBuckets", "list_bucket_sums", "list_rules"]

#: What `list_bucket_sums` yields.
SUMS = "bucket int, rules long, print long"

#: Rows of one batch that goes back to Spark.
_OUT_ROWS = 50_000

Rows = npt.NDArray[np.int32]


@dataclass(frozen=True)
class ChosenBuckets:
    """Some of the buckets, as bits; it travels pickled inside Spark."""

    buckets: Buckets
    bits: bytes

    @classmethod
    def of(cls, buckets: Buckets, numbers: npt.NDArray[np.int32]) -> ChosenBuckets:
        """Return the buckets with these numbers."""
        chosen = np.zeros(1 << buckets.bits, np.bool_)
        chosen[numbers] = True
        return cls(buckets, np.packbits(chosen).tobytes())

    def has(self, keys: Hashes) -> npt.NDArray[np.bool_]:
        """Return which hashes of keys fall into these buckets."""
        chosen = np.unpackbits(np.frombuffer(self.bits, np.uint8)).astype(np.bool_)
        is_chosen: npt.NDArray[np.bool_] = chosen[self.buckets.numbers(keys)]
        return is_chosen


def list_bucket_sums(batches: Iterator[pa.RecordBatch], *, version: str, buckets: Buckets) -> Iterator[pa.RecordBatch]:
    """Yield (bucket, rules, print) of the living rules of the parts numbered in the batches."""
    for part in _parts(batches, version):
        keys, rules = part.keys(buckets.seed), part.rules()
        prints = rule_prints(keys, rules["filter"], rules["expires"], rules["metadata"])
        columns = [pa.array(column) for column in bucket_sums(buckets.numbers(keys), prints)]
        yield pa.RecordBatch.from_arrays(columns, names=["bucket", "rules", "print"])


def list_rules(
    batches: Iterator[pa.RecordBatch], *, version: str, chosen: ChosenBuckets, form: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yield (part, row, namespace, id, filter, expires, metadata) of the living rules in some buckets.

    A box that came as columns has no filter.
    """
    for part in _parts(batches, version):
        indices = np.flatnonzero(chosen.has(part.keys(chosen.buckets.seed)))
        for start in range(0, len(indices), _OUT_ROWS):
            yield part.batch(indices[start : start + _OUT_ROWS], form)


@dataclass(frozen=True)
class _LivingRules:
    """The rules of a part that have not left."""

    number: int
    saved: SavedPart
    rows: Rows
    #: Where each row is in the table of the part; null for a row whose id is from a range.
    lines: pa.Array

    def ids(self) -> pa.Array:
        """Return the ids: int64, or strings where the table has one."""
        numbers, texts = (self._column(name) for name in ("id_number", "id_text"))
        if not texts.null_count:
            return texts
        from_ranges = pa.array(_range_ids(self.saved.part)[self.rows], mask=np.asarray(self.lines.is_valid()))
        numeric_ids = pc.coalesce(numbers, from_ranges)
        return numeric_ids if texts.null_count == len(texts) else pc.coalesce(texts, numeric_ids.cast(pa.string()))

    def rules(self) -> dict[str, pa.Array]:
        """Return what the rules say."""
        return {name: self._column(name) for name in ("filter", "expires", "metadata")}

    def keys(self, seed: int) -> Hashes:
        """Return the hashes of the names of the rules."""
        return key_hashes(seed, self.saved.part.namespace, self.ids())

    def batch(self, indices: npt.NDArray[np.intp], form: pa.Schema) -> pa.RecordBatch:
        """Return some of the rules as rows."""
        some = _LivingRules(self.number, self.saved, self.rows[indices], self.lines.take(pa.array(indices)))
        n = len(indices)
        columns = [pa.array(np.full(n, self.number, np.int32)), pa.array(some.rows)]
        columns += [repeated(self.saved.part.namespace, n), some.ids(), *some.rules().values()]
        cast = [column.cast(field.type) for column, field in zip(columns, form, strict=True)]
        return pa.RecordBatch.from_arrays(cast, schema=form)

    def _column(self, name: str) -> pa.Array:
        column = self.saved.table[name].combine_chunks()
        is_all = len(self.lines) == len(column) and not self.lines.null_count
        return column if is_all else column.take(self.lines)


def _parts(batches: Iterator[pa.RecordBatch], version: str) -> Iterator[_LivingRules]:
    for batch in batches:
        for number in batch.column(0).to_pylist():
            saved = read_part_of(version, number)
            living = saved.rows.living.copy()
            living[saved.removed] = False
            rows = np.flatnonzero(living).astype(np.int32)
            yield _LivingRules(number, saved, rows, _lines_of(saved, rows))


def _lines_of(saved: SavedPart, rows: Rows) -> pa.Array:
    """Return where rows are in the table of a part; those that the table lacks have ids from ranges."""
    listed = np.asarray(saved.table["row"])
    positions = np.searchsorted(listed, rows)
    is_listed = np.zeros(len(rows), np.bool_)
    inside = positions < len(listed)
    is_listed[inside] = listed[positions[inside]] == rows[inside]
    return pa.array(positions, mask=~is_listed)


def _range_ids(part: Part) -> npt.NDArray[np.int64]:
    """Return the ids of rows that are ranges; 0 for the others."""
    blocks = [np.zeros(n, np.int64) if start is None else np.arange(start, start + n) for start, n in part.blocks]
    return np.concatenate([np.zeros(0, np.int64), *blocks])
