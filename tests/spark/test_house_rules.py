"""Nothing in the pipeline brings events or subscriptions to the driver or sends them to all executors."""

from __future__ import annotations

import ast
from pathlib import Path

import tamis.spark

HERE = Path(tamis.spark.__file__).parent
SOURCES = sorted(HERE.rglob("*.py"))
FORBIDDEN = {"collect", "toPandas", "toArrow", "toLocalIterator", "broadcast", "take", "head", "tail", "first", "show"}

#: Where small answers come to the driver, and what they are.
ALLOWED = {
    ("snapshot.py", "_lines"),  # a line per part that was written, or that loses rows
    ("differences.py", "fetched"),  # rules in buckets that differ, 64 MB at most
    ("tiles.py", "write_tiles"),  # a line per part of a tile
    ("pipeline.py", "_quarantine"),  # two counts
    ("pipeline_frames.py", "count_repeats"),  # a count
    ("pipeline_frames.py", "fingerprint_of"),  # a count and sums of checksums
    ("reduce.py", "_axes"),  # a count per axis
    ("reduce.py", "_count"),  # a count and two sizes
    ("reduce.py", "_counted"),  # a count per rule
    ("summary.py", "write_summary"),  # the name of a file per task
    ("report.py", "reasons_in"),  # the ten most frequent reasons
    ("report.py", "top_subscriptions"),  # the ten with most deliveries
    ("regions.py", "_grid"),  # five numbers
    ("sync.py", "_counted"),  # a count per state
    ("objects.py", "write_objects"),  # a line per object that was written
    ("delta.py", "_write_files"),  # a line per file that was written
    ("iceberg.py", "_write_files"),  # a line per file that was written
    ("console.py", "replace"),  # twenty rows for a person to look at
    ("overlay.py", "_ranked"),  # a count per partition
    ("differences.py", "changed_buckets"),  # the numbers of the buckets that differ
    ("differences.py", "given_among"),  # the same numbers, sent to all executors
    ("match.py", "learned_schema"),  # the attributes that rules name, with their types
    ("match.py", "indexed"),  # at most eleven bad subscriptions, for the message
}


def _calls(path: Path) -> set[tuple[str, str]]:
    """Return (file, function) of every call that brings rows to the driver; `take` of Arrow arrays is none."""
    calls = set()
    for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(function, ast.FunctionDef):
            continue
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in FORBIDDEN:
                calls.add((path.name, function.name))
    return calls


def test_nothing_is_collected_or_broadcast() -> None:
    assert SOURCES
    # These run inside the executors, on Arrow.
    workers = {"compiling.py", "matching.py", "building.py", "reading.py", "tile_work.py", "typed.py", "reducing.py"}
    workers |= {
        "column_functions.py",
        "joining.py",
        "evaluating.py",
        "daemon.py",
        "rule_rows.py",
        "fingerprints.py",
        "few_rules.py",
        "overlay_boxes.py",
    }
    calls = {call for path in SOURCES if path.name not in workers for call in _calls(path)}
    assert calls == ALLOWED
