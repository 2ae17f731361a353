"""Fingerprints of rules: NumPy and Spark compute the same, whatever the lengths, ends and metadata are."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F

from tamis.kernels.text.fingerprints import fold_texts
from tamis.spark.snapshots.differences import _bucket, _print
from tamis.spark.snapshots.fingerprints import Buckets, bucket_sums, fold, key_hashes, rule_prints

CHARACTERS = "aé€𝄞 <='\"0"


def rules(n: int, seed: int) -> list[tuple[str, str, str | None, dict[str, str | None] | None]]:
    """Return (id, text, expires, metadata); lengths pass all branches of the hash (4, 8 and 32 bytes)."""
    chance = random.Random(seed)

    def text(most: int) -> str:
        return "".join(chance.choice(CHARACTERS) for _ in range(chance.randrange(most)))

    def metadata() -> dict[str, str | None] | None:
        return {text(5): chance.choice([None, text(40)]) for _ in range(chance.randrange(4))}

    ends = [None, "0", "-5", "1893456000000000"]
    return [(text(20), text(100), chance.choice(ends), chance.choice([None, metadata()])) for _ in range(n)]


def test_spark_and_numpy_agree(spark: Any) -> None:
    rows, buckets = rules(300, seed=5), Buckets(seed=123456789, bits=12)
    form = "id string, filter string, expires string, metadata map<string,string>"
    frame = spark.createDataFrame(rows, form).withColumn("namespace", F.lit("default"))
    computed = frame.select("id", _bucket(buckets).alias("bucket"), _print(buckets).alias("print")).collect()
    ids, texts, ends, metadata = (list(column) for column in zip(*rows, strict=True))
    keys = key_hashes(buckets.seed, "default", pa.array(ids))
    pairs = pa.array([None if entries is None else list(entries.items()) for entries in metadata], METADATA)
    expires = pa.array([None if end is None else int(end) for end in ends], pa.int64())
    prints = rule_prints(keys, pa.array(texts, pa.large_string()), expires, pairs).view(np.int64)
    assert [row["bucket"] for row in computed] == buckets.numbers(keys).tolist()
    assert [row["print"] for row in computed] == prints.tolist()
    numbers = spark.range(-5, 5).withColumn("namespace", F.lit("n"))
    computed = [row["bucket"] for row in numbers.select(_bucket(buckets).alias("bucket")).collect()]
    assert computed == buckets.numbers(key_hashes(buckets.seed, "n", pa.array(range(-5, 5), pa.int64()))).tolist()


METADATA = pa.map_(pa.string(), pa.string())


def test_the_kernel_is_its_plain_form() -> None:
    texts = pa.array([text for _, text, _, _ in rules(60, seed=6)] + ["", "x" * 200])
    seeds = np.arange(len(texts), dtype=np.uint64)
    plain = seeds.copy()
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int32, len(texts) + 1).astype(np.int64)
    with np.errstate(over="ignore"):
        fold_texts.py_func(plain, ends, np.frombuffer(data, np.uint8), np.ones(len(texts), np.bool_))
    assert fold(seeds, texts).tolist() == plain.tolist()
    assert fold(seeds[3:], texts.slice(3)).tolist() == plain[3:].tolist()
    assert fold(seeds[:2], pa.array([None, None], pa.string())).tolist() == [0, 1]


def test_sums_of_buckets() -> None:
    buckets, counts, prints = bucket_sums(np.array([3, 1, 3], np.int32), np.array([5, 9, 6], np.uint64))
    assert (buckets.tolist(), counts.tolist(), prints.tolist()) == ([1, 3], [1, 2], [9, 3])
    assert [len(column) for column in bucket_sums(np.zeros(0, np.int32), np.zeros(0, np.uint64))] == [0, 0, 0]
