"""Where rows are kept: one Parquet file and one manifest per experiment; finished configurations until then.

::

    DIRECTORY/
      z-speedup.parquet     the rows, one line per measurement
      z-speedup.json        commit, versions, seed, scale, machine, when
      z-speedup-1.svg .png  pictures, drawn from the rows
      findings.json         the verdict on every claim
      comparison.json       which verdicts another run had, if it was compared
      report.html, .md      everything on one page
      parts/z-speedup/      draws of configurations that are done while others still run

A run that was stopped goes on from its parts. A part is named by what made it (experiment, its design, configuration,
draw, scale, seed, version of tamis, and the commit if a run wants rows of one commit), so that nothing of another run
is taken for its own.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import shutil
import subprocess
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tamis import __version__
from tamis.errors import ModelError
from tamis_lab.experiment import Config, Experiment, Finding
from tamis_lab.rows import Row
from tamis_lab.scale import Scale

__all__ = ["DrawResult", "KeptComparison", "ResultManifest", "Results", "Setting", "origin_of", "source_commit"]


class Setting(NamedTuple):
    """How large a run is, where its chances come from, and the commit that all rows must be of ("": any)."""

    scale: Scale
    seed: int
    commit: str = ""


class DrawResult(msgspec.Struct, frozen=True):
    """The rows of one draw of a configuration, and the processor seconds that they took."""

    rows: list[dict[str, Any]]
    processor_seconds: float


class ResultManifest(msgspec.Struct, frozen=True):
    """Where the rows of an experiment come from: its scale, seed and design, the commit, versions and machine."""

    experiment: str
    scale: Scale
    seed: int
    tamis: str
    commit: str
    numpy: str
    python: str
    machine: str
    finished: str
    n_rows: int
    #: The experiment's design that made the rows; manifests before there were designs have none.
    design: int = 1
    #: What all draws took together; manifests before it was measured have none.
    processor_seconds: float = 0.0


class KeptComparison(msgspec.Struct, frozen=True):
    """What another run says of the claims of a directory: where its rows come from, and its verdict on each claim.

    ``here`` has the verdicts of the directory when they were compared.
    """

    other: str
    verdicts: dict[str, str | None]
    here: dict[str, str | None]


def origin_of(manifests: Sequence[ResultManifest]) -> str:
    """Return what the rows of experiments come from: how many of each scale, commits and seeds."""
    commits = sorted({each.commit[:10] or f"tamis {each.tamis}" for each in manifests})
    seeds = sorted({each.seed for each in manifests})
    scales = Counter(each.scale for each in manifests)
    sizes = " and ".join(f"{scales[scale]} of scale {scale}" for scale in Scale if scales[scale])
    return (
        f"{len(manifests):,} experiment{'' if len(manifests) == 1 else 's'}, {sizes}, from "
        f"{'commit' if len(commits) == 1 else f'{len(commits)} commits:'} {', '.join(commits)}, "
        f"{'seed' if len(seeds) == 1 else 'seeds'} {', '.join(map(str, seeds))}"
    )


@dataclass(frozen=True)
class Results:
    """A directory of results."""

    directory: Path

    def part(self, experiment: Experiment, config: Config, draw: int, setting: Setting) -> Path:
        """Return the file of one draw of a configuration."""
        made_by = [experiment.name, experiment.design, config, draw, *setting, __version__]
        digest = hashlib.sha256(msgspec.json.encode(made_by, order="sorted")).hexdigest()[:20]
        return self._parts(experiment) / f"{digest}.json"

    def read_part(self, experiment: Experiment, config: Config, draw: int, setting: Setting) -> DrawResult | None:
        """Return a draw that is done, or None."""
        path = self.part(experiment, config, draw, setting)
        return msgspec.json.decode(path.read_bytes(), type=DrawResult) if path.exists() else None

    def write_part(self, experiment: Experiment, config: Config, draw: int, setting: Setting, part: DrawResult) -> None:
        """Keep a draw."""
        path = self.part(experiment, config, draw, setting)
        path.parent.mkdir(parents=True, exist_ok=True)
        _replace(path, msgspec.json.encode(part))

    def write(self, experiment: Experiment, setting: Setting, parts: Sequence[DrawResult]) -> None:
        """Write all rows of an experiment and what they came from; its parts go."""
        self.directory.mkdir(parents=True, exist_ok=True)
        rows = [row for part in parts for row in part.rows]
        names = list(dict.fromkeys(name for row in rows for name in row))
        table = pa.table({name: [row.get(name) for row in rows] for name in names})
        path = self._rows(experiment)
        pq.write_table(table, path.with_suffix(".writing"), compression="zstd")
        os.replace(path.with_suffix(".writing"), path)
        spent = sum(part.processor_seconds for part in parts)
        manifest = _manifest(experiment, setting, len(rows), round(spent, 1))
        _replace(path.with_suffix(".json"), msgspec.json.format(msgspec.json.encode(manifest)))
        shutil.rmtree(self._parts(experiment), ignore_errors=True)
        with contextlib.suppress(OSError):  # another experiment still has parts
            self._parts(experiment).parent.rmdir()

    def has(self, experiment: Experiment) -> bool:
        """Whether there are rows of an experiment."""
        return self._rows(experiment).exists()

    def is_done(self, experiment: Experiment, setting: Setting) -> bool:
        """Whether the rows of this setting and version exist; an error if the rows are of another setting."""
        if not self.has(experiment):
            return False
        manifest = self.manifest(experiment)
        if (manifest.scale, manifest.seed) != setting[:2]:
            raise ModelError(
                f"{self._rows(experiment)} has rows of scale {manifest.scale}, seed {manifest.seed}: choose another "
                "directory with --out, or replace them with --again"
            )
        return manifest.tamis == __version__ and self.is_current(experiment) and setting.commit in ("", manifest.commit)

    def is_current(self, experiment: Experiment) -> bool:
        """Whether the rows of an experiment are of its present design, so that its judges can read them."""
        return self.manifest(experiment).design == experiment.design

    def read(self, experiment: Experiment) -> list[Row]:
        """Return the rows of an experiment; an error that says how to get them when there are none."""
        path = self._rows(experiment)
        if not path.exists():
            raise ModelError(f"{path} is not there: run `tamis lab run {experiment.name} --out {self.directory}` first")
        with pq.ParquetFile(path) as file:
            rows = file.read().to_pylist()
        return [{name: value for name, value in row.items() if value is not None} for row in rows]

    def manifest(self, experiment: Experiment) -> ResultManifest:
        """Return what an experiment's rows came from."""
        return msgspec.json.decode(self._rows(experiment).with_suffix(".json").read_bytes(), type=ResultManifest)

    def picture(self, experiment: Experiment, number: int, kind: str = "svg") -> Path:
        """Return the file of an experiment's picture; they are counted from 1."""
        return self.directory / f"{experiment.name}-{number}.{kind}"

    def write_findings(self, findings: Sequence[Finding]) -> None:
        """Keep the verdicts beside the rows."""
        self.directory.mkdir(parents=True, exist_ok=True)
        _replace(self.directory / "findings.json", msgspec.json.format(msgspec.json.encode(findings)) + b"\n")

    def write_comparison(self, comparison: KeptComparison) -> None:
        """Keep what another run says beside the rows."""
        data = msgspec.json.format(msgspec.json.encode(comparison)) + b"\n"
        _replace(self.directory / "comparison.json", data)

    def comparison(self) -> KeptComparison | None:
        """Return what another run says; None if there is no comparison."""
        path = self.directory / "comparison.json"
        return msgspec.json.decode(path.read_bytes(), type=KeptComparison) if path.exists() else None

    def _rows(self, experiment: Experiment) -> Path:
        return self.directory / f"{experiment.name}.parquet"

    def _parts(self, experiment: Experiment) -> Path:
        return self.directory / "parts" / experiment.name


def _manifest(experiment: Experiment, setting: Setting, n_rows: int, processor_seconds: float) -> ResultManifest:
    return ResultManifest(
        experiment=experiment.name,
        scale=setting.scale,
        seed=setting.seed,
        tamis=__version__,
        commit=source_commit(),
        numpy=np.__version__,
        python=platform.python_version(),
        machine=f"{platform.system()} {platform.machine()}, {os.cpu_count() or 1} cores",
        finished=datetime.now(UTC).isoformat(timespec="seconds"),
        n_rows=n_rows,
        design=experiment.design,
        processor_seconds=processor_seconds,
    )


def source_commit() -> str:
    """Return the commit of the source tree tamis runs from, or "" for an installed package.

    ``+changes`` follows the commit where files below src differ from it.
    """
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return ""
    changed = _git(root, "status", "--porcelain", "--", "src")
    return _git(root, "rev-parse", "HEAD") + ("+changes" if changed else "")


def _git(root: Path, *words: str) -> str:
    return subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=False).stdout.strip()


def _replace(path: Path, data: bytes) -> None:
    """Write a file wholly or not at all."""
    writing = path.with_suffix(".writing")
    writing.write_bytes(data)
    os.replace(writing, path)
