"""Balls to measure with: the worlds of [projection] section IV, and embeddings.

``uniform`` and ``pareto``: centres uniform in the unit cube, radii in (0, 1), uniform or by the 80-20 rule.
``embeddings``: unit vectors around 2,000 themes, as models of text and pictures give them, with radii that hold
neighbours of one theme.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["KINDS", "BallWork", "make_balls"]

_FloatArray = npt.NDArray[np.float64]

KINDS: Final = ("uniform", "pareto", "embeddings")
_THEMES: Final = 2_000


class BallWork(NamedTuple):
    """Balls as centres float64[n, d] and radii float64[n], and further balls in the same form to look up."""

    centers: _FloatArray
    radii: _FloatArray
    questions: _FloatArray
    question_radii: _FloatArray


def make_balls(kind: str, n: int, d: int, n_questions: int, seed: int = 2) -> BallWork:
    """Draw balls and questions; the same arguments give the same balls.

    >>> work = make_balls("pareto", 100, 4, 5)
    >>> work.centers.shape, work.question_radii.shape, bool((work.radii <= 1).all())
    ((100, 4), (5,), True)
    """
    rng = np.random.default_rng([seed, n, d, KINDS.index(kind)])
    if kind == "embeddings":
        themes = _unit(rng.standard_normal((_THEMES, d)))
        centers = _near(rng, themes[rng.integers(0, _THEMES, n)], 0.5)
        questions = _near(rng, centers[rng.integers(0, n, n_questions)], 0.3)
        return BallWork(centers, 0.2 + 0.8 * rng.random(n), questions, 0.05 + 0.3 * rng.random(n_questions))
    radii = [rng.random(m) if kind == "uniform" else _pareto(rng, m) for m in (n, n_questions)]
    return BallWork(rng.random((n, d)), radii[0], rng.random((n_questions, d)), radii[1])


def _pareto(rng: np.random.Generator, n: int) -> _FloatArray:
    """Draw radii by the 80-20 rule: a bounded Pareto distribution of shape 1.161 on 0.05 to 1, by its inverse."""
    least, shape = 0.05, 1.161
    radii: _FloatArray = least / (1.0 - rng.random(n) * (1.0 - least**shape)) ** (1.0 / shape)
    return radii


def _near(rng: np.random.Generator, points: _FloatArray, spread: float) -> _FloatArray:
    return _unit(points + rng.standard_normal(points.shape) * (spread / np.sqrt(points.shape[1])))


def _unit(vectors: _FloatArray) -> _FloatArray:
    scaled: _FloatArray = vectors / np.linalg.norm(vectors, axis=1)[:, None]
    return scaled
