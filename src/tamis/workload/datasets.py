"""Real data that comes with the package: a week of earthquakes, the regions around them, and questions.

The files lie in ``tamis/data``, read through ``importlib.resources``, so they are found in a checkout, a
wheel or a zip alike; ``LICENSES.md`` beside them tells source and terms. ``scripts/make_data.py`` made them.
Every call reads its file afresh: what a caller changes, no other caller sees.
"""

from __future__ import annotations

import json
from importlib.resources import files

import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["earthquakes", "quake_regions", "quake_subscriptions"]


def earthquakes() -> pa.Table:
    """Read the 1,707 seismic events of one week, oldest first.

    ``at`` is a UTC timestamp, ``depth`` is in km (negative above sea level), ``epicentre`` is a WKB point,
    ``felt`` (reports by people) and ``alert`` are mostly null.

    >>> table = earthquakes()
    >>> table.num_rows
    1707
    >>> table.column_names  # doctest: +NORMALIZE_WHITESPACE
    ['id', 'at', 'mag', 'mag_type', 'depth', 'place', 'lon', 'lat', 'epicentre', 'felt', 'tsunami', 'alert',
     'status', 'type', 'network']
    >>> table["place"][0].as_py()
    '37km NNE of Amboy, Washington'
    """
    return _read_table("earthquakes.parquet")


def quake_regions() -> pa.Table:
    """Read the regions (states, provinces) in which those events lie, and their neighbours, sorted by code.

    ``region`` is a WKB polygon: simple, without holes. Two neighbours share their border exactly.

    >>> table = quake_regions()
    >>> table.num_rows
    217
    >>> table.column_names
    ['code', 'name', 'country', 'region']
    >>> table["name"][table["code"].index("US-CA").as_py()].as_py()
    'California'
    """
    return _read_table("regions.parquet")


def quake_subscriptions() -> list[tuple[str, str]]:
    """Read 67 standing questions about earthquakes as pairs (id, CQL2 text).

    Some cover others, some are equivalent, some can never match.

    >>> questions = dict(quake_subscriptions())
    >>> len(questions)
    67
    >>> questions["strong-shallow"]
    'mag >= 5 AND depth < 70'
    """
    lines = (files("tamis") / "data" / "quake_subscriptions.jsonl").read_text(encoding="utf-8").splitlines()
    return [(row["id"], row["filter"]) for row in map(json.loads, lines)]


def _read_table(name: str) -> pa.Table:
    # Not pq.read_table(file): its threads may outlive the call and then abort the interpreter at exit when
    # the source is a Python object (apache/arrow 33975, 50482); a third of short programs died of it.
    content = (files("tamis") / "data" / name).read_bytes()
    return pq.ParquetFile(pa.BufferReader(content)).read(use_threads=False)
