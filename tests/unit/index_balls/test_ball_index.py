"""The ball index against rational arithmetic: every way, tangent balls, huge and tiny numbers, lives."""

from __future__ import annotations

import numpy as np
import pytest

from tamis.errors import ModelError
from tamis.index.balls.ball_index import BallIndex
from tamis.index.balls.projections import KINDS, Projections
from tests import naive_balls

WAYS = ("tree", "blocks", "scan", "auto")


def made(centers, radii, way="auto", k=None, kind="orthonormal", rows=None):
    index = BallIndex(Projections.drawn(centers.shape[1], k, seed=5, kind=kind), way=way)
    index.add_many(np.arange(len(radii)) if rows is None else rows, centers, radii)
    return index


def lattice(rng, n, d, reach, largest):
    """Integer balls: a third of the pairs near the rim are tangent."""
    return rng.integers(0, reach, (n, d)).astype(np.float64), rng.integers(0, largest, n).astype(np.float64)


def check(index, balls, questions, rows=None):
    """Compare every answer with the truth."""
    rows = np.arange(len(balls[1])) if rows is None else np.asarray(rows)
    truth = naive_balls.cover_matrix(balls, questions)
    offsets, found_rows = index.find_all_covers(*questions)
    for e in range(len(questions[1])):
        assert found_rows[offsets[e] : offsets[e + 1]].tolist() == sorted(rows[truth[:, e]].tolist())
    covers = index.find_covers(*questions)
    assert np.array_equal(covers >= 0, truth.any(axis=0))
    for e in np.flatnonzero(covers >= 0):
        assert truth[np.flatnonzero(rows == covers[e])[0], e]
    back = naive_balls.cover_matrix(questions, balls)
    for e in range(min(len(questions[1]), 8)):
        covered = index.find_covered(questions[0][e], float(questions[1][e]))
        assert covered.tolist() == sorted(rows[back[e]].tolist())


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("d", "k"), [(1, None), (2, None), (2, 1), (3, 5), (7, None)])
def test_lattice_balls(way, d, k):
    rng = np.random.default_rng(d)
    balls = lattice(rng, 300, d, 9, 9)
    check(made(*balls, way, k), balls, lattice(rng, 25, d, 9, 5))


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_vectors(kind):
    rng = np.random.default_rng(8)
    balls = lattice(rng, 300, 4, 6, 8)
    check(made(*balls, "tree", kind=kind), balls, lattice(rng, 20, 4, 6, 4))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("size", [1.0, 1e-160, 1e160, 1e-5, 1e9])
def test_any_size_of_numbers(way, size):
    rng = np.random.default_rng(9)
    balls = rng.normal(size=(300, 3)) * size, rng.random(300) * 2 * size
    questions = rng.normal(size=(12, 3)) * size, rng.random(12) * 0.5 * size
    check(made(*balls, way), balls, questions)


@pytest.mark.parametrize("way", WAYS)
def test_questions_of_another_size_than_the_balls(way):
    rng = np.random.default_rng(15)
    balls = rng.normal(size=(300, 2)), rng.random(300) * 4
    sizes = 10.0 ** np.array([-300, -160, -20, 0, 3, 9, 20, 160, 300])
    questions = rng.normal(size=(9, 2)) * sizes[:, None], np.where(sizes < 1, 0.1, 0.1 * sizes)
    check(made(*balls, way), balls, questions)
    check(made(*questions, way), questions, (balls[0][:20], balls[1][:20]))


def test_one_ball_far_away_makes_blocks_a_scan():
    centers, radii = np.zeros((300, 2)), np.ones(300)
    centers[7] = 1e30
    index = made(centers, radii, "blocks")
    assert index.statistics()["way"] == "scan"
    assert "float32" in index.statistics()["why"]
    assert index.find_covers(centers[7:8], radii[7:8]).tolist() == [7]


@pytest.mark.parametrize("way", WAYS)
def test_tangent_balls_of_real_numbers(way):
    """Each ball is asked about with one that touches it from inside as nearly as float64 can say."""
    rng = np.random.default_rng(10)
    centers, radii = rng.normal(size=(600, 5)), 0.5 + rng.random(600)
    chosen = rng.integers(0, 600, 25)
    share = rng.random(25)
    direction = rng.normal(size=(25, 5))
    direction /= np.linalg.norm(direction, axis=1)[:, None]
    questions = centers[chosen] + direction * (radii[chosen] * (1 - share))[:, None], radii[chosen] * share
    check(made(centers, radii, way), (centers, radii), questions)


@pytest.mark.parametrize("way", WAYS)
def test_equal_balls_and_the_ball_itself(way):
    centers, radii = np.tile([0.1, 0.2, 0.3], (600, 1)), np.full(600, 0.7)
    index = made(centers, radii, way)
    offsets, rows = index.find_all_covers(centers[:1], radii[:1])
    assert rows.tolist() == list(range(600))
    assert offsets.tolist() == [0, 600]
    assert index.find_covered(centers[0], 0.7).tolist() == list(range(600))
    assert index.find_covers(centers[:1], np.nextafter(radii[:1], 1)).tolist() == [-1]


@pytest.mark.parametrize("way", ["tree", "blocks", "scan"])
def test_a_life(way):
    """Add one by one and in bulk, remove, ask; parts are made, merged and laid out again."""
    rng = np.random.default_rng(11)
    index = BallIndex(Projections.drawn(2, seed=1), way=way)
    living: dict[int, tuple[np.ndarray, float]] = {}
    row = 0
    for step in range(12):
        centers, radii = lattice(rng, 700 if step in (3, 7) else 250, 2, 20, 6)
        rows = np.arange(row, row + len(radii))
        if step % 2:
            index.add_many(rows, centers, radii)
        else:
            for number, center, radius in zip(rows.tolist(), centers, radii.tolist(), strict=True):
                index.add(number, center, radius)
        living |= dict(zip(rows.tolist(), zip(centers, radii.tolist(), strict=True), strict=True))
        row += len(radii)
        removed = rng.choice(list(living), len(living) // (2 if step % 3 else 4), replace=False).tolist()
        for number in removed:
            index.remove(number)
            del living[number]
        assert len(index) == len(living)
        assert index.rows().tolist() == sorted(living)
        balls = np.array([ball[0] for ball in living.values()]), np.array([ball[1] for ball in living.values()])
        check(index, balls, lattice(rng, 6, 2, 20, 4), rows=list(living))
        with pytest.raises(KeyError):
            index.remove(removed[0])
        assert removed[0] not in index
        kept = next(iter(living))
        center, radius = index.ball(kept)
        assert (center.tolist(), radius) == (living[kept][0].tolist(), living[kept][1])


def test_a_row_that_was_removed_can_return():
    index = BallIndex(Projections.drawn(1))
    index.add_many(np.arange(400), np.zeros((400, 1)), np.ones(400))
    index.remove(7)
    index.add(7, [5.0], 1.0)
    assert index.find_all_covers(np.array([[5.0]]), np.zeros(1))[1].tolist() == [7]
    index.remove(7)
    assert index.ball(7) is None


def test_saved_vectors_are_used_again():
    rng = np.random.default_rng(12)
    balls = lattice(rng, 700, 6, 5, 9)
    index = made(*balls, "tree", k=3)
    again = BallIndex.from_arrays(index.to_arrays(), way="tree")
    assert np.array_equal(again.projections.vectors, index.projections.vectors)
    check(again, balls, lattice(rng, 10, 6, 5, 4))


def test_the_choice_follows_the_dimension_and_says_why():
    rng = np.random.default_rng(13)
    plane = made(rng.random((2_000, 2)), rng.random(2_000) * 0.1)
    space = made(rng.normal(size=(2_000, 300)), rng.random(2_000) * 20)
    assert (plane.statistics()["way"], space.statistics()["way"]) == ("tree", "blocks")
    assert plane.statistics()["pass_share"] < 0.1 < 0.3 < space.statistics()["pass_share"]
    assert "of pairs pass k = 12 projections" in space.statistics()["why"]
    assert made(np.zeros((3, 2)), np.ones(3)).statistics()["way"] == "scan"
    assert made(np.full((600, 2), 1e200), np.ones(600)).statistics()["way"] == "scan"


def test_statistics_count_what_was_done():
    index = made(np.zeros((600, 2)), np.ones(600), "tree")
    index.find_covers(np.zeros((4, 2)), np.zeros(4))
    statistics = index.statistics()
    assert (statistics["asked"], statistics["dimension"], statistics["k"]) == (4, 2, 2)
    assert 4 <= statistics["verified"] <= statistics["candidates"]


def test_nothing_is_fine():
    index = BallIndex(Projections.drawn(3))
    assert index.find_covers(np.zeros((2, 3)), np.zeros(2)).tolist() == [-1, -1]
    assert index.find_all_covers(np.zeros((0, 3)), np.zeros(0))[0].tolist() == [0]
    assert index.find_covered(np.zeros(3), 1.0).tolist() == []


@pytest.mark.parametrize("wrong", [{"kind": "round"}, {"k": 0}])
def test_wrong_projections_are_refused(wrong):
    with pytest.raises(ModelError):
        Projections.drawn(3, **wrong)


def test_an_unknown_way_is_refused():
    with pytest.raises(ModelError, match="unknown way 'fast'"):
        made(np.zeros((600, 2)), np.ones(600), "fast")


@pytest.mark.soak
@pytest.mark.parametrize("way", ["tree", "blocks"])
def test_soak_covering_of_balls_dismisses_none_of_a_million_pairs(way):
    """RP1 on 10**6 pairs with r >= r', a quarter of them near tangent."""
    rng = np.random.default_rng(14)
    for d in (2, 4, 8, 20, 64):
        centers, radii = rng.random((2_000, d)), rng.random(2_000) * np.sqrt(d) / 3
        index = made(centers, radii, way)
        outer, inner = rng.random((200, d)), rng.random(200) * 0.3
        near = rng.integers(0, 2_000, 50)
        inner[:50] = radii[near] * rng.random(50)
        direction = outer[:50] - centers[near]
        direction /= np.linalg.norm(direction, axis=1)[:, None]
        outer[:50] = centers[near] + direction * (radii[near] - inner[:50])[:, None]
        check(index, (centers, radii), (outer, inner))
