"""The S3 server of the Spark measurements, without Spark."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("moto")
pytest.importorskip("obstore")

from tamis.errors import TamisError
from tamis_bench.spark import goals


def test_no_request_is_sent_where_the_server_did_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty endpoint would be that of AWS itself."""
    monkeypatch.setattr(goals, "_SERVER", "raise SystemExit('no port is free')")
    spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(environment={}))
    before = dict(os.environ)
    with pytest.raises(TamisError, match="did not start"), goals._store(spark, tmp_path):
        pytest.fail("there is no store")
    assert (spark.sparkContext.environment, dict(os.environ)) == ({}, before)
