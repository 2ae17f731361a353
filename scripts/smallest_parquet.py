"""Write a table as the smallest Parquet file: each column in the encoding that is smallest for it.

The bundled data sets are half of the wheel, so the scripts that make them write them through here. Called as a program,
it writes the bundled files again from their own rows:

    .venv/bin/python scripts/smallest_parquet.py
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

TARGET = Path(__file__).resolve().parents[1] / "src" / "tamis" / "data"

#: Brotli is smallest, but Spark cannot read it: the file that `tamis demo data` copies for users has zstd.
COMPRESSIONS = {
    "counties.parquet": ("brotli", 11),
    "county_borders.parquet": ("brotli", 11),
    "storms.parquet": ("brotli", 11),
    "earthquakes.parquet": ("zstd", 22),
    "regions.parquet": ("brotli", 11),
}

#: What is tried for each column besides a dictionary.
ENCODINGS = ("PLAIN", "DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT", "DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY")


def write_smallest(table: pa.Table, name: str) -> None:
    """Write ``table`` to the bundled file ``name``."""
    codec, level = COMPRESSIONS[name]
    shared = {
        "compression": codec,
        "compression_level": level,
        "data_page_size": 64 << 20,  # one page: fewer headers, and the codec sees everything at once
        "max_rows_per_page": table.num_rows,
        "write_statistics": False,
    }
    options: dict[str, Any] = {"use_dictionary": [], "column_encoding": {}}
    for column in table.column_names:
        for leaf, encoding in smallest_encoding(table.select([column]), shared).items():
            if encoding is None:
                options["use_dictionary"].append(leaf)
            else:
                options["column_encoding"][leaf] = encoding
    pq.write_table(table, TARGET / name, **shared, **options)
    if not pq.read_table(TARGET / name).cast(table.schema).equals(table):
        raise SystemExit(f"{name} does not hold the rows that were written")


def smallest_encoding(column: pa.Table, shared: dict[str, Any]) -> dict[str, str | None]:
    """Return the encoding of each leaf of a table with one column; None means a dictionary."""
    with_dictionary = written(column, shared | {"use_dictionary": True})
    schema = pq.ParquetFile(io.BytesIO(with_dictionary)).schema
    leaves = [schema.column(number).path for number in range(len(schema))]
    sizes: dict[str | None, int] = {None: len(with_dictionary)}
    for encoding in ENCODINGS:
        try:
            chosen = {"use_dictionary": False, "column_encoding": dict.fromkeys(leaves, encoding)}
            sizes[encoding] = len(written(column, shared | chosen))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError):
            continue  # this encoding does not exist for the type of the column
    return dict.fromkeys(leaves, min(sizes, key=sizes.__getitem__))


def written(table: pa.Table, options: dict[str, Any]) -> bytes:
    """Return ``table`` as the bytes of a Parquet file."""
    target = io.BytesIO()
    pq.write_table(table, target, **options)
    return target.getvalue()


def main() -> None:
    """Write every bundled file again and print its size before and after."""
    for name in COMPRESSIONS:
        before = (TARGET / name).stat().st_size
        write_smallest(pq.read_table(TARGET / name), name)
        print(f"{name}: {before:,} -> {(TARGET / name).stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
