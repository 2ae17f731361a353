"""Runs experiments: the draws of configurations are rows of Spark DataFrames, or calls here; what is done is kept.

A *piece* is one draw of one configuration. Its rows, and the processor time that they took, are kept as soon as it is
done, so that a run can be stopped at any time, and so that the time of a whole run can be told from its first draws.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from tamis_lab.experiment import Config, Experiment, Finding
from tamis_lab.registry import find_experiment
from tamis_lab.results import DrawResult, Results, Setting
from tamis_lab.scale import Scale

__all__ = ["Cost", "DrawProgress", "Pieces", "cost_of", "here", "judge", "on_spark", "run_experiments", "run_piece"]

#: Runs pieces of work anywhere and yields ``(place, answer)`` as each is done.
Pieces = Callable[[Sequence[str]], Iterator[tuple[int, str]]]


class DrawProgress(NamedTuple):
    """``done`` of ``total`` draws of an experiment are finished."""

    experiment: Experiment
    done: int
    total: int


class DrawTask(msgspec.Struct, frozen=True):
    """A draw of a configuration on its way to a worker."""

    experiment: str
    config: dict[str, Any]
    seed: int
    draw: int


def run_piece(text: str) -> str:
    """Run a `DrawTask`, read from JSON, in a worker; return its `DrawResult` as JSON.

    The generator is seeded by the run's seed, the experiment, the configuration and the draw, so rows do not depend on
    what the worker ran before.
    """
    piece = msgspec.json.decode(text, type=DrawTask)
    config = msgspec.json.encode(piece.config, order="sorted")
    rng = np.random.default_rng([piece.seed, zlib.crc32(piece.experiment.encode()), zlib.crc32(config)])
    experiment = find_experiment(piece.experiment)
    drawn = {"seed": piece.draw} if experiment.draws > 1 else {}
    started = time.process_time()
    rows = experiment.run(piece.config, rng.spawn(experiment.draws)[piece.draw] if drawn else rng)
    part = DrawResult([{**piece.config, **drawn, **row} for row in rows], time.process_time() - started)
    return msgspec.json.encode(part, enc_hook=_plain).decode()


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
    experiments: Sequence[Experiment],
    results: Results,
    setting: Setting,
    run: Pieces,
    again: bool = False,
    first: bool = False,
) -> Iterator[DrawProgress]:
    """Run experiments and write their rows; yields progress. What is there already is kept unless ``again``.

    ``first`` runs one draw of each configuration and writes no rows: `cost_of` then tells what a whole run takes.
    """
    for experiment in experiments:
        pieces = pieces_of(experiment, setting.scale)
        if not again and results.is_done(experiment, setting):
            yield DrawProgress(experiment, len(pieces), len(pieces))
            continue
        done = {} if again else _read_parts(experiment, results, setting)
        yield DrawProgress(experiment, len(done), len(pieces))
        waiting = [i for i, piece in enumerate(pieces) if i not in done and not (first and piece.number)]
        texts = [_text(experiment, pieces[i], setting.seed) for i in waiting]
        for at, answer in run(texts):
            piece, part = pieces[waiting[at]], msgspec.json.decode(answer, type=DrawResult)
            done[waiting[at]] = part
            results.write_part(experiment, piece.config, piece.draw, setting, part)
            if len(done) < len(pieces):
                yield DrawProgress(experiment, len(done), len(pieces))
        if len(done) == len(pieces):
            results.write(experiment, setting, [done[i] for i in range(len(pieces))])
            yield DrawProgress(experiment, len(pieces), len(pieces))


class Draw(NamedTuple):
    """A configuration, which of its draws, and the number of this draw among those that differ by chance alone."""

    config: Config
    draw: int
    number: int


def pieces_of(experiment: Experiment, scale: Scale) -> list[Draw]:
    """Return all pieces of an experiment: every draw of every configuration."""
    return [
        Draw(config, draw, config.get("seed", draw))
        for config in experiment.configs(scale)
        for draw in range(experiment.draws)
    ]


class Cost(NamedTuple):
    """What an experiment takes: ``pieces``, how many are done, their processor seconds, and those of all of them."""

    experiment: str
    pieces: int
    done: int
    spent_seconds: float
    expected_seconds: float | None


def cost_of(experiment: Experiment, results: Results, setting: Setting) -> Cost:
    """Return the processor seconds of an experiment, spent and expected, from the draws that are done.

    The expected seconds are None while a configuration has no draw. A draw that is not done is expected to take the
    mean of the finished draws of its configuration.
    """
    pieces = pieces_of(experiment, setting.scale)
    if results.is_done(experiment, setting):
        spent = results.manifest(experiment).processor_seconds
        return Cost(experiment.name, len(pieces), len(pieces), spent, spent)
    parts = _read_parts(experiment, results, setting)
    groups: dict[bytes, list[float | None]] = {}
    for i, piece in enumerate(pieces):
        key = msgspec.json.encode({name: value for name, value in piece.config.items() if name != "seed"})
        groups.setdefault(key, []).append(parts[i].processor_seconds if i in parts else None)
    spent, expected = 0.0, 0.0
    whole = True
    for times in groups.values():
        measured = [seconds for seconds in times if seconds is not None]
        spent += sum(measured)
        whole = whole and bool(measured)
        expected += len(times) * sum(measured) / max(len(measured), 1)
    return Cost(experiment.name, len(pieces), len(parts), spent, expected if whole else None)


def _read_parts(experiment: Experiment, results: Results, setting: Setting) -> dict[int, DrawResult]:
    """Return the parts that an earlier run finished, by the index of the piece."""
    pieces = enumerate(pieces_of(experiment, setting.scale))
    parts = ((i, results.read_part(experiment, piece.config, piece.draw, setting)) for i, piece in pieces)
    return {i: part for i, part in parts if part is not None}


def _text(experiment: Experiment, piece: Draw, seed: int) -> str:
    return msgspec.json.encode(DrawTask(experiment.name, piece.config, seed, piece.draw)).decode()


def judge(experiments: Sequence[Experiment], results: Results) -> list[Finding]:
    """Return the findings on every claim of the experiments whose rows are there, in their present design."""
    return [
        finding
        for experiment in experiments
        if results.has(experiment) and results.is_current(experiment)
        for finding in experiment.judge(results.read(experiment), results.manifest(experiment).scale)
    ]
