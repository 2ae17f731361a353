"""Fingerprints of rules in Arrow columns, equal to those that Spark computes, and buckets of rules by their keys.

Two sets of rules are compared bucket by bucket: how many rules each has, and the XOR of their fingerprints. So neither
set travels, and only the rules of buckets that differ are compared one by one. Nothing is stored: each comparison
draws a seed, so that no author of rules can prepare two that look alike, and a change that one comparison misses (one
bucket in 2^64) is found by the next.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tamis.kernels.text.fingerprints import fold_texts

__all__ = ["Buckets", "bucket_sums", "fold", "key_hashes", "rule_prints"]

Hashes = npt.NDArray[np.uint64]

#: What Spark's ``xxhash64`` begins with.
_SPARK_SEED = 42
#: Rules in a bucket, about, and the limits of how many buckets there are: a thousand, and a million.
_IN_BUCKET, _FEWEST_BITS, _MOST_BITS = 16, 10, 20
_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)


@dataclass(frozen=True)
class Buckets:
    """How rules fall into ``2 ** bits`` buckets; it travels pickled inside Spark."""

    seed: int
    bits: int

    @classmethod
    def of(cls, n_rules: int) -> Buckets:
        """Return buckets for about ``n_rules`` rules, with a seed of their own."""
        bits = (n_rules // _IN_BUCKET).bit_length()
        return cls(secrets.randbits(63), min(max(bits, _FEWEST_BITS), _MOST_BITS))

    def numbers(self, keys: Hashes) -> npt.NDArray[np.int32]:
        """Return the bucket of each hash of a key: its highest bits."""
        buckets: npt.NDArray[np.int32] = (keys >> np.uint64(64 - self.bits)).astype(np.int32)
        return buckets


def key_hashes(seed: int, namespace: str, ids: pa.Array) -> Hashes:
    """Return ``xxhash64(seed, namespace, id)``, which decides the bucket and begins the fingerprint."""
    first: Hashes = np.full(1, _SPARK_SEED, np.uint64)
    start = fold(fold(first, pa.array([seed], pa.int64())), pa.array([namespace], pa.string()))
    return fold(np.repeat(start, len(ids)), ids)


def rule_prints(keys: Hashes, texts: pa.Array, expires: pa.Array, metadata: pa.Array) -> Hashes:
    """Return the fingerprints of rules: their keys with text, end and sorted metadata."""
    prints = fold(fold(keys, texts), expires)
    entries = _sorted_entries(metadata)
    for number in range(int(entries["place"].max(initial=-1)) + 1):
        chosen = np.flatnonzero(entries["place"] == number)
        rows, indices = entries["row"][chosen], pa.array(chosen)
        prints[rows] = fold(fold(prints[rows], entries["key"].take(indices)), entries["value"].take(indices))
    return prints


def bucket_sums(numbers: npt.NDArray[np.int32], prints: Hashes) -> tuple[Any, Any, Any]:
    """Return the buckets that have rules, how many, and the XOR of their fingerprints as int64."""
    if not len(numbers):
        return numbers, np.zeros(0, np.int64), np.zeros(0, np.int64)
    order = np.argsort(numbers, kind="stable")
    buckets, starts, counts = np.unique(numbers[order], return_index=True, return_counts=True)
    return buckets, counts, np.bitwise_xor.reduceat(prints[order], starts).view(np.int64)


def fold(hashes: Hashes, column: pa.Array) -> Hashes:
    """Return the hashes of a column of strings or int64 with ``hashes`` as seeds; a missing value changes nothing."""
    valid = np.asarray(column.is_valid())
    if pa.types.is_integer(column.type):
        return np.where(valid, _fold_numbers(hashes, np.asarray(column.fill_null(0)).astype(np.int64)), hashes)
    folded = hashes.copy()
    _, offsets, data = column.buffers()
    if len(column) and data is not None:
        width = np.dtype(np.int64 if pa.types.is_large_string(column.type) else np.int32)
        ends = np.frombuffer(offsets, width, len(column) + 1, column.offset * width.itemsize).astype(np.int64)
        fold_texts(folded, ends, np.frombuffer(data, np.uint8), valid)
    elif len(column):  # empty strings only
        fold_texts(folded, np.zeros(len(column) + 1, np.int64), np.zeros(0, np.uint8), valid)
    return folded


def _fold_numbers(hashes: Hashes, values: npt.NDArray[np.int64]) -> Hashes:
    """Return XXH64 of 8 bytes each."""
    state = hashes + _P5 + np.uint64(8)
    state ^= _rotated(values.view(np.uint64) * _P2, 31) * _P1
    state = _rotated(state, 27) * _P1 + _P4
    state = (state ^ (state >> np.uint64(33))) * _P2
    state = (state ^ (state >> np.uint64(29))) * _P3
    return state ^ (state >> np.uint64(32))


def _rotated(values: Hashes, left: int) -> Hashes:
    return (values << np.uint64(left)) | (values >> np.uint64(64 - left))


def _sorted_entries(metadata: pa.Array) -> dict[str, Any]:
    """Return key and value of all entries, their row, and their place among the sorted ones of the row."""
    lengths = np.asarray(pc.fill_null(pc.list_value_length(_as_lists(metadata)), 0))
    rows = np.repeat(np.arange(len(metadata)), lengths)
    flat = _as_lists(metadata).flatten()
    keys, values = flat.field(0), flat.field(1)
    order = pc.sort_indices(pa.table({"row": rows, "key": keys}), [("row", "ascending"), ("key", "ascending")])
    positions = np.arange(len(rows)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return {"row": rows, "place": positions, "key": keys.take(order), "value": values.take(order)}


def _as_lists(metadata: pa.Array) -> pa.Array:
    """Return a column of maps as one of lists of (key, value)."""
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())]))
    return metadata.cast(kind)
