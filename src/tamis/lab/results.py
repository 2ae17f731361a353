"""Where rows are kept: one Parquet file and one manifest per experiment; finished configurations until then.

::

    DIRECTORY/
      z-speedup.parquet     the rows, one line per measurement
      z-speedup.json        commit, versions, seed, scale, machine, when
      z-speedup-1.svg .png  pictures, drawn from the rows
      findings.json         the verdict on every claim
      parts/z-speedup/      configurations that are done while others still run

A run that was stopped goes on from its parts. A part is named by what made it (experiment, configuration, scale, seed,
version of tamis), so that nothing of another run is taken for its own.
"""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import tamis
from tamis.errors import ModelError
from tamis.lab.experiment import Config, Experiment, Finding, Row, Scale

__all__ = ["Manifest", "Results"]


class Manifest(msgspec.Struct, frozen=True):
    """What rows came from."""

    experiment: str
    scale: Scale
    seed: int
    tamis: str
    commit: str
    numpy: str
    python: str
    machine: str
    cores: int
    finished: str
    n_rows: int


@dataclass(frozen=True)
class Results:
    """A directory of results of one scale and seed."""

    directory: Path
    scale: Scale
    seed: int

    def part(self, experiment: Experiment, config: Config) -> Path:
        """Return the file of one configuration's rows."""
        made_by = [experiment.name, config, self.scale, self.seed, tamis.__version__]
        digest = hashlib.sha256(msgspec.json.encode(made_by, order="sorted")).hexdigest()[:20]
        return self.directory / "parts" / experiment.name / f"{digest}.json"

    def read_part(self, experiment: Experiment, config: Config) -> list[Row] | None:
        """Return the rows of a configuration that is done, or None."""
        path = self.part(experiment, config)
        return msgspec.json.decode(path.read_bytes(), type=list[dict[str, Any]]) if path.exists() else None

    def write_part(self, experiment: Experiment, config: Config, rows: Sequence[Row]) -> None:
        """Keep the rows of a configuration."""
        path = self.part(experiment, config)
        path.parent.mkdir(parents=True, exist_ok=True)
        _replace(path, msgspec.json.encode(rows))

    def write(self, experiment: Experiment, rows: Sequence[Row]) -> None:
        """Write all rows of an experiment and what they came from; its parts go."""
        self.directory.mkdir(parents=True, exist_ok=True)
        names = list(dict.fromkeys(name for row in rows for name in row))
        table = pa.table({name: [row.get(name) for row in rows] for name in names})
        path = self.directory / f"{experiment.name}.parquet"
        pq.write_table(table, path.with_suffix(".writing"), compression="zstd")
        os.replace(path.with_suffix(".writing"), path)
        _replace(
            path.with_suffix(".json"), msgspec.json.format(msgspec.json.encode(self._manifest(experiment, len(rows))))
        )
        parts = self.part(experiment, {}).parent
        for part in parts.glob("*.json") if parts.exists() else ():
            part.unlink()

    def read(self, experiment: Experiment) -> list[Row]:
        """Return the rows of an experiment; an error that says how to get them when there are none."""
        path = self.directory / f"{experiment.name}.parquet"
        if not path.exists():
            raise ModelError(f"{path} is not there: run `tamis lab run {experiment.name} --scale {self.scale}` first")
        with pq.ParquetFile(path) as file:
            rows = file.read().to_pylist()
        return [{name: value for name, value in row.items() if value is not None} for row in rows]

    def has(self, experiment: Experiment) -> bool:
        """Whether the rows of an experiment are there."""
        return (self.directory / f"{experiment.name}.parquet").exists()

    def manifest(self, experiment: Experiment) -> Manifest:
        """Return what an experiment's rows came from."""
        return msgspec.json.decode((self.directory / f"{experiment.name}.json").read_bytes(), type=Manifest)

    def write_findings(self, findings: Sequence[Finding]) -> None:
        """Keep the verdicts beside the rows."""
        self.directory.mkdir(parents=True, exist_ok=True)
        _replace(self.directory / "findings.json", msgspec.json.format(msgspec.json.encode(findings)))

    def _manifest(self, experiment: Experiment, n_rows: int) -> Manifest:
        return Manifest(
            experiment=experiment.name,
            scale=self.scale,
            seed=self.seed,
            tamis=tamis.__version__,
            commit=_commit(),
            numpy=np.__version__,
            python=platform.python_version(),
            machine=f"{platform.system()} {platform.machine()}",
            cores=os.cpu_count() or 1,
            finished=datetime.now(UTC).isoformat(timespec="seconds"),
            n_rows=n_rows,
        )


def _commit() -> str:
    """Return the commit of the source tree tamis runs from, or "" for an installed package."""
    root = Path(tamis.__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return ""
    told = subprocess.run(["git", "-C", str(root), "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return told.stdout.strip()


def _replace(path: Path, data: bytes) -> None:
    """Write a file wholly or not at all."""
    writing = path.with_suffix(".writing")
    writing.write_bytes(data)
    os.replace(writing, path)
