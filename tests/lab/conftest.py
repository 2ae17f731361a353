"""The toy experiment stands among the real ones while a test of the framework runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tamis_lab import registry
from tamis_lab.experiment import Experiment
from tamis_lab.results import Results
from tests.lab import toys


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Experiment:
    toys.RAN.clear()
    monkeypatch.setitem(registry.EXPERIMENTS, "toy", toys.TOY)
    return toys.TOY


@pytest.fixture
def results(tmp_path: Path) -> Results:
    return Results(tmp_path / "rows")
