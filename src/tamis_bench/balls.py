"""The benchmark of balls: who covers a ball, and which balls hold an event's vector.

*Cover*: balls per second for which one cover is sought. ``ours`` chooses its way; ``tree``, ``blocks`` and ``scan`` are
its ways by force, the scan being the base. *Match*: events per second through `Engine.match_table`, beside NumPy that
computes every distance. Answers are compared with the base before a time counts.

BLAS uses the threads that it is given. ``OPENBLAS_NUM_THREADS=1`` compares one thread with one, and is quicker on a
machine that has other work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tamis.engine import Engine
from tamis.errors import InvariantError
from tamis.index.balls.ball_index import BallIndex
from tamis.index.balls.projections import Projections
from tamis_bench.report import Sheet, human, size_name
from tamis_bench.rows import Row
from tamis_bench.timing import Effort, best_of
from tamis_bench.workloads.balls import BallWork, make_balls

__all__ = ["SYSTEMS", "WORKS", "ball_sheet", "measure_balls"]


class _Work(NamedTuple):
    """What is asked of which world, the goal for ours at 100,000 balls, and by what the radii are multiplied."""

    what: str
    kind: str
    d: int
    goal: float | None = None
    shrink: float = 1.0


WORKS: Final[dict[str, _Work]] = {
    "cover-uniform-4": _Work("cover", "uniform", 4, 2.4e6),
    "cover-uniform-8": _Work("cover", "uniform", 8, 310e3),
    "cover-uniform-20": _Work("cover", "uniform", 20, 8.3e3),
    "cover-pareto-4": _Work("cover", "pareto", 4, 3.5e6),
    "cover-pareto-8": _Work("cover", "pareto", 8, 1.4e6),
    "cover-pareto-20": _Work("cover", "pareto", 20, 26e3),
    "cover-embeddings-384": _Work("cover", "embeddings", 384, 1.8e3),
    "match-pareto-2": _Work("match", "pareto", 2, shrink=0.1),
    "match-pareto-8": _Work("match", "pareto", 8, shrink=0.5),
    "match-embeddings-64": _Work("match", "embeddings", 64, shrink=0.7),
    "match-embeddings-384": _Work("match", "embeddings", 384, shrink=0.7),
}
SYSTEMS: Final = ("ours", "tree", "blocks", "scan", "numpy")
_GOAL_SIZE: Final = 100_000
#: Questions of the sample that is checked and that sets the number of questions that are timed.
_SAMPLE: Final = 16

_Ask = Callable[[slice], object]


def measure_balls(works: Sequence[str], sizes: Sequence[int], systems: Sequence[str], effort: Effort) -> Iterator[Row]:
    """Yield a row for every number, as soon as it is known; the base of a work comes first."""
    for name in works:
        work = WORKS[name]
        for n in sizes:
            world = make_balls(work.kind, n, work.d, 2 * effort.batch)
            run = _cover_systems if work.what == "cover" else _match_systems
            base = 0.0
            for system, rate, note in run(world, work, systems, effort):
                base = base or rate
                goal = work.goal if system == "ours" and n == _GOAL_SIZE else None
                yield Row(name, n, system, work.what, rate, rate / base, goal, note)


def ball_sheet(rows: Sequence[Row]) -> Sheet:
    """Return one table: a line per work and size, a column per system, then the goal and the way that ours chose."""
    systems = [name for name in SYSTEMS if any(row.system == name for row in rows)]
    rows_by_cell = {(row.work, row.n, row.system): row for row in rows}
    lines = []
    for work, n in dict.fromkeys((row.work, row.n) for row in rows):
        own = [rows_by_cell.get((work, n, system)) for system in systems]
        goal = next((row.goal for row in own if row and row.goal), None)
        cells = ["" if row is None or row.rate is None else human(row.rate) for row in own]
        ours = rows_by_cell.get((work, n, "ours"))
        lines.append([work, size_name(n), *cells, human(goal) if goal else "", ours.note if ours else ""])
    return Sheet(["questions/s, events/s", "n", *systems, "goal", "ours by"], lines, left=1)


def _cover_systems(
    world: BallWork, work: _Work, systems: Sequence[str], effort: Effort
) -> Iterator[tuple[str, float, str]]:
    truth: npt.NDArray[np.bool_] | None = None
    ways = {"scan": "scan", "tree": "tree", "blocks": "blocks", "ours": "auto"}
    for system in [name for name in ways if name in systems or name == "scan"]:
        index = BallIndex(Projections.drawn(work.d), way=ways[system])
        index.add_many(np.arange(len(world.radii)), world.centers, world.radii)

        def ask(some: slice, index: BallIndex = index) -> npt.NDArray[np.int32]:
            return index.find_covers(world.questions[some], world.question_radii[some])

        covered = ask(slice(_SAMPLE * 4)) >= 0
        truth = covered if truth is None else truth
        if not np.array_equal(covered, truth):
            raise InvariantError(f"{system} and the scan disagree on {work.kind} balls of {work.d} dimensions")
        statistics = index.statistics()
        note = f"{statistics['way']}, k = {statistics['k']}" if system == "ours" else ""
        yield system, _rate(ask, effort), note


def _match_systems(
    world: BallWork, work: _Work, systems: Sequence[str], effort: Effort
) -> Iterator[tuple[str, float, str]]:
    radii = world.radii * work.shrink
    squares = np.einsum("ij,ij->i", world.centers, world.centers) - radii**2

    def brute(some: slice) -> npt.NDArray[np.bool_]:
        points = world.questions[some]
        products = points @ world.centers.T
        near: npt.NDArray[np.bool_] = squares - 2 * products <= -np.einsum("ij,ij->i", points, points)[:, None]
        return near

    engine = Engine()
    engine.subscribe_balls("look", world.centers, radii)
    matches = engine.match_table({"look": list(world.questions[:_SAMPLE])})
    truth = brute(slice(_SAMPLE))
    if not np.array_equal(np.diff(matches.offsets), truth.sum(axis=1)):
        raise InvariantError(f"ours and NumPy disagree on {work.kind} balls of {work.d} dimensions")
    yield "numpy", _rate(brute, effort, most=256), f"{truth.sum(axis=1).mean():.1f} matches per event"
    if "ours" in systems:
        statistics = engine.statistics()["namespaces"]["default"]
        note = f"{statistics['balls.look.way']}, k = {statistics['balls.look.k']}"
        yield "ours", _rate(lambda some: engine.match_table({"look": world.questions[some]}), effort), note


def _rate(ask: _Ask, effort: Effort, most: int | None = None) -> float:
    """Time as many questions as there is time for; return questions per second."""
    few = slice(0, _SAMPLE)
    each = best_of(lambda: ask(few), effort) / _SAMPLE
    n = int(np.clip(effort.seconds / max(each, 1e-9), _SAMPLE, most or 2 * effort.batch))
    return n / best_of(lambda: ask(slice(0, n)), effort)
