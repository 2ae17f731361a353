"""The thread that merges: one at a time, beside the writer, and memory is given back once for many rows."""

from __future__ import annotations

import threading

import pytest

from tamis.engine import merging
from tamis.engine.merging import BackgroundMerge
from tamis.index.protocols import MergePlan


class Plan:
    """A merge that leaves out ``n_dead`` rows and runs until it may end."""

    def __init__(self, n_dead: int, may_end: threading.Event) -> None:
        self.n_dead = n_dead
        self.runs = threading.Event()
        self._may_end = may_end

    def run(self) -> None:
        self.runs.set()
        assert self._may_end.wait(60)


class Index:
    """Proposes the given plans, one after the other, and counts how many threads asked."""

    def __init__(self, *plans: Plan) -> None:
        self.plans = list(plans)
        self.asking: set[str] = set()
        self.installed: list[MergePlan] = []

    def wants_merge(self) -> bool:
        return True

    def plan_merge(self) -> Plan | None:
        self.asking.add(str(threading.get_ident()))
        return self.plans.pop(0) if self.plans else None

    def install(self, plan: MergePlan) -> None:
        self.installed.append(plan)

    def compact(self) -> None:
        raise AssertionError("no test compacts")


def test_one_merge_runs_at_a_time_and_writers_need_not_wait() -> None:
    may_end = threading.Event()
    plans = [Plan(0, may_end), Plan(0, may_end)]
    index, background = Index(*plans), BackgroundMerge(threading.RLock())
    background.nudge(index)
    try:
        assert plans[0].runs.wait(60)
        assert background.lock.acquire(timeout=20), "the lock is free while a merge runs"
        background.nudge(index)
        background.lock.release()
        assert index.plans == plans[1:]
    finally:
        may_end.set()
    background.wait()
    assert index.installed == plans
    assert len(index.asking) == 1


def test_memory_is_given_back_once_for_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    may_end = threading.Event()
    may_end.set()
    threads: list[str] = []
    monkeypatch.setattr(merging, "MANY_ROWS", 100)
    monkeypatch.setattr(merging, "give_back_memory", lambda: threads.append(threading.current_thread().name))
    background, counts = BackgroundMerge(threading.RLock()), list[int]()
    for n_dead in (60, 60, 60, 20, 20, 0):
        background.nudge(Index(Plan(n_dead, may_end)))
        background.wait()
        counts.append(len(threads))
    assert counts == [0, 1, 1, 1, 2, 2]
    assert set(threads) == {"tamis-merge"}
