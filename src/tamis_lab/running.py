"""Runs experiments: each configuration is one Spark task, or one call here; what is done is not done again."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from tamis_lab.experiment import Config, Experiment, Finding
from tamis_lab.registry import find_experiment
from tamis_lab.results import Results, Setting
from tamis_lab.rows import Row

__all__ = ["Pieces", "Step", "here", "judge", "on_spark", "run_experiments", "run_piece"]

#: Runs pieces of work anywhere and yields ``(place, answer)`` as each is done.
Pieces = Callable[[Sequence[str]], Iterator[tuple[int, str]]]


class Step(NamedTuple):
    """Progress: ``done`` of ``total`` configurations of an experiment are there."""

    experiment: Experiment
    done: int
    total: int


class Piece(msgspec.Struct, frozen=True):
    """A configuration on its way to a worker."""

    experiment: str
    config: dict[str, Any]
    seed: int


def run_piece(text: str) -> str:
    """Run one configuration: what a worker does. JSON in, the rows as JSON out.

    The generator is seeded by the run's seed, the experiment and the configuration, so rows do not depend on who ran
    what before.
    """
    piece = msgspec.json.decode(text, type=Piece)
    config = msgspec.json.encode(piece.config, order="sorted")
    rng = np.random.default_rng([piece.seed, zlib.crc32(piece.experiment.encode()), zlib.crc32(config)])
    rows = find_experiment(piece.experiment).run(piece.config, rng)
    return msgspec.json.encode([{**piece.config, **row} for row in rows], enc_hook=_plain).decode()


def _plain(value: Any) -> Any:
    """Turn a NumPy scalar into Python's."""
    if isinstance(value, np.generic):
        return value.item()
    raise NotImplementedError(type(value))


def here(pieces: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Run pieces one after another in this process."""
    return ((place, run_piece(piece)) for place, piece in enumerate(pieces))


def on_spark(master: str | None = None) -> Pieces:
    """Return a way to run pieces as Spark tasks, as many at once as the session has room for."""

    def run(pieces: Sequence[str]) -> Iterator[tuple[int, str]]:
        from tamis.spark.running.session import session
        from tamis_lab.tasks import run_tasks

        return run_tasks(session(master, name="tamis lab"), run_piece, pieces)

    return run


def run_experiments(
    experiments: Sequence[Experiment], results: Results, setting: Setting, run: Pieces, again: bool = False
) -> Iterator[Step]:
    """Run experiments and write their rows; yields progress. What is there already is kept unless ``again``."""
    for experiment in experiments:
        configs = experiment.configs(setting.scale)
        if not again and results.is_done(experiment, setting):
            yield Step(experiment, len(configs), len(configs))
            continue
        done = {} if again else _read_parts(experiment, configs, results, setting)
        yield Step(experiment, len(done), len(configs))
        waiting = [place for place in range(len(configs)) if place not in done]
        for at, answer in run([_piece(experiment, configs[place], setting.seed) for place in waiting]):
            place, rows = waiting[at], msgspec.json.decode(answer, type=list[dict[str, Any]])
            done[place] = rows
            results.write_part(experiment, configs[place], setting, rows)
            if len(done) < len(configs):
                yield Step(experiment, len(done), len(configs))
        results.write(experiment, setting, [row for place in range(len(configs)) for row in done[place]])
        yield Step(experiment, len(configs), len(configs))


def _read_parts(
    experiment: Experiment, configs: Sequence[Config], results: Results, setting: Setting
) -> dict[int, list[Row]]:
    """Return the rows of the configurations that an earlier run finished, by place."""
    found = ((place, results.read_part(experiment, config, setting)) for place, config in enumerate(configs))
    return {place: rows for place, rows in found if rows is not None}


def _piece(experiment: Experiment, config: Config, seed: int) -> str:
    return msgspec.json.encode(Piece(experiment.name, config, seed)).decode()


def judge(experiments: Sequence[Experiment], results: Results) -> list[Finding]:
    """Return the findings on every claim of the experiments whose rows are there, in their present design."""
    return [
        finding
        for experiment in experiments
        if results.has(experiment) and results.is_current(experiment)
        for finding in experiment.judge(results.read(experiment), results.manifest(experiment).scale)
    ]
