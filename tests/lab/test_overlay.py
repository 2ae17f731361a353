"""Peers beyond what can be grown: the line goes through what was, and rows say which is which."""

from __future__ import annotations

import numpy as np
import pytest

from tamis_lab.beyond.overlay import EXPERIMENT, straight_line
from tamis_lab.rows import column, where


def test_a_power_goes_on_as_it_was() -> None:
    sizes = [100, 200, 400, 800, 1_600]
    assert straight_line(sizes, [n**-0.5 for n in sizes], 1e7) == pytest.approx(1e7**-0.5)
    assert straight_line(sizes, [99.0, *(n**-0.5 for n in sizes[1:])], 1e7) == pytest.approx(1e7**-0.5)  # the last four


def test_rows_say_what_was_grown_and_what_was_not() -> None:
    rows = [{"most": 320, **row} for row in EXPERIMENT.run({"most": 320}, np.random.default_rng(1))]
    for split in ("quadratic", "r*"):
        mine = where(rows, split=split)
        assert column(where(mine, grown=True), "n") == [20, 40, 80, 160, 320]
        assert column(where(mine, grown=False, check=False), "n") == [100_000, 1_000_000, 10_000_000]
        assert column(where(mine, check=True), "n") == [320]
        for row in where(mine, grown=True):
            assert row["reached"] == pytest.approx((row["hits"] + row["false_positives"]) * row["n"])
    assert EXPERIMENT.lesson is not None
    assert "Grown up to 320 peers, a straight line" in EXPERIMENT.lesson(rows)
