"""Kernels are compiled ahead of a job, once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import shapely

from tamis.demo import datasets, warm_up
from tamis.engine import Engine
from tamis.kernels import cache
from tamis.model.schema import Schema
from tamis.model.tables import SubscriptionTable
from tamis.reduction.reduce import reduce
from tests.loaded_kernels import loaded_kernels


def test_the_mark_says_that_the_cache_is_filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm_up, "mark_path", lambda: tmp_path / "mark")
    assert not warm_up.are_kernels_compiled()
    warm_up.leave_mark()
    assert warm_up.are_kernels_compiled()


def test_the_mark_is_of_these_sources_and_this_processor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setitem(cache.KERNEL, "cache", True)
    mine, of_brokers = cache.mark_path(), cache.mark_path("broker")
    assert mine is not None
    assert mine.parent == tmp_path
    monkeypatch.setattr(cache, "checksum_of_sources", lambda: "0" * 12)
    edited = cache.mark_path()
    monkeypatch.setattr(cache.llvm, "get_host_cpu_name", lambda: "other")
    elsewhere = cache.mark_path()
    assert len({mine, of_brokers, edited, elsewhere}) == 4


def test_without_a_cache_there_is_nothing_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(cache.KERNEL, "cache", False)
    assert warm_up.are_kernels_compiled()


#: Loaded kernels are counted in a process of its own: the tests before this one have loaded them all.
_PROGRAM = "from tests.unit.demo.test_warm_up import main; main()"


def main() -> None:
    """Print the kernels that the whole data of the demonstration needs, and the small jobs do not."""
    for compile_part in warm_up.PARTS.values():
        compile_part()
    before = loaded_kernels()
    quakes = datasets.earthquakes()
    regions = datasets.quake_regions().to_pylist()
    borders = shapely.to_wkt(shapely.from_wkb([row["region"] for row in regions]), rounding_precision=17)
    questions: dict[int | str, Any] = dict(datasets.quake_subscriptions())
    questions |= {row["code"]: f"S_WITHIN(epicentre, {text})" for row, text in zip(regions, borders, strict=True)}
    _match(datasets.county_subscriptions(), datasets.storms())
    _match(pa.table({"id": list(questions), "filter": list(questions.values())}), quakes)
    reduce(questions, Schema.from_arrow(quakes))
    for name in sorted(loaded_kernels() - before):
        print(name)


def _match(subscriptions: pa.Table, events: pa.Table) -> None:
    engine = Engine(Schema.from_arrow(events))
    engine.subscribe_table(SubscriptionTable.from_arrow(subscriptions))
    engine.wait()
    engine.match_table(events, on_bad="skip")


def test_the_demonstration_needs_no_other_kernel() -> None:
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


@pytest.mark.soak
def test_the_pipeline_compiles_nothing_in_a_cache_that_was_filled(tmp_path: Path) -> None:
    kernels = tmp_path / "kernels"
    kernels.mkdir(mode=0o700)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(kernels)}

    def run(*words: str) -> set[str]:
        subprocess.run([sys.executable, "-m", "tamis", *words], env=environment, check=True, timeout=900)
        return {path.name for path in kernels.rglob("*.nbc")}

    compiled = run("kernels", "--only", "job")
    assert compiled
    assert run("pipeline", "demo", "--out", str(tmp_path / "demo")) - compiled == set()
