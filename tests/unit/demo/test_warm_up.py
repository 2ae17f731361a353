"""Kernels are compiled ahead of a job, once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tamis.demo import datasets, warm_up
from tamis.kernels import cache


def test_a_small_job_leaves_a_mark_and_is_not_run_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm_up, "mark_path", lambda: tmp_path / "mark")
    assert not warm_up.are_kernels_compiled()
    warm_up.compile_kernels()
    assert warm_up.are_kernels_compiled()
    monkeypatch.setattr(datasets, "storms", lambda: pytest.fail("the job ran again"))
    warm_up.compile_kernels()


def test_a_job_that_fails_leaves_no_mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise OSError("disk full")

    monkeypatch.setattr(warm_up, "mark_path", lambda: tmp_path / "mark")
    monkeypatch.setattr(datasets, "storms", fail)
    with pytest.raises(OSError, match="disk full"):
        warm_up.compile_kernels()
    assert not warm_up.are_kernels_compiled()


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
