"""The workloads: the same seed gives the same numbers, and events match as many boxes as promised."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from tamis import Engine
from tamis_bench.scan import scan_boxes
from tamis_bench.workloads.boxes import (
    BOX_WORKS,
    TEXT_WORKS,
    WORKS,
    BoxWork,
    TextWork,
    box_events,
    make_booleans,
    make_boxes,
    make_texts,
    make_work,
)

N, N_EVENTS = 20_000, 4_096


def matches_per_event(work: BoxWork) -> float:
    offsets, out = np.zeros(len(work.points) + 1, np.int64), np.empty(2_000_000, np.int32)
    done = scan_boxes(work.lo, work.hi, work.filled, 0, offsets, out)
    assert done == len(work.points)
    return offsets[-1] / done


@pytest.mark.parametrize(
    ("name", "of_a_million", "slack"),
    [
        ("uniform4", (5.9, 5.9), 0.2),  # some five hundred matches in all
        ("zipf4", (4_630, 4_630), 0.1),
        ("sparse20", (5.5, 5.5), 0.2),
        ("stock", (2_222, 2_500), 0.1),
        ("dense20", (105, 105), 0.1),
        ("ads122", (0.9, 1.4), 0.6),  # some eighty matches in all
    ],
)
def test_events_match_as_many_as_promised(name: str, of_a_million: tuple[float, float], slack: float) -> None:
    low, high = (rate * N / 1_000_000 for rate in of_a_million)
    matches = matches_per_event(make_boxes(name, N, N_EVENTS))
    assert (1 - slack) * low <= matches <= (1 + slack) * high


@pytest.mark.parametrize("name", BOX_WORKS)
def test_boxes_are_the_same_every_time(name: str) -> None:
    first, again, other = (make_boxes(name, 500, 50, seed) for seed in (7, 7, 8))
    for field in ("lo", "hi", "points"):
        assert np.array_equal(getattr(first, field), getattr(again, field), equal_nan=True)
        assert not np.array_equal(getattr(first, field), getattr(other, field), equal_nan=True)


@pytest.mark.parametrize(
    ("names", "expected"),
    [(("uniform4", "zipf4", "sparse20", "stock"), "5542cb5146c68b19"), (("dense20", "ads122"), "7d2a0a6ea3ed88b1")],
)
def test_numbers_compare_across_machines_and_years(names: tuple[str, ...], expected: str) -> None:
    digest = hashlib.sha256()
    for name in names:
        work = make_boxes(name, 100, 10)
        for array in (work.lo, work.hi, work.points):
            # log and exp may differ in the last bits between libraries
            digest.update(np.char.mod("%.9g", array).tobytes())
    assert digest.hexdigest()[:16] == expected


@pytest.mark.parametrize("name", BOX_WORKS)
def test_boxes_are_closed_and_events_whole(name: str) -> None:
    work = make_boxes(name, 500, 50)
    assert len(work) == 500
    assert (work.lo <= work.hi).all()
    assert np.isfinite(work.points).all() == (name != "ads122")
    assert work.events.column_names == list(work.names)
    assert np.array_equal(work.events[work.names[-1]].to_numpy(), work.points[:, -1], equal_nan=True)


def test_ads_have_gaps_that_no_bounded_side_holds() -> None:
    work = make_boxes("ads122", 2_000, 50)
    bounded = np.isfinite(work.lo)
    assert np.array_equal(bounded, np.isfinite(work.hi))
    assert (bounded.sum(axis=1) == 8).all()
    assert 0.6 < (work.lo[bounded] == work.hi[bounded]).mean() < 0.8
    assert (np.isfinite(work.points).sum(axis=1) == 20).all()
    assert work.events["a20"].null_count == np.isnan(work.points[:, 20]).sum() > 0
    assert work.filled[np.isnan(work.points)].min() > work.hi[bounded].max()
    assert all(len(event) == 20 for event in box_events(work, range(5)))


def test_sparse_boxes_ask_for_four_attributes() -> None:
    work = make_boxes("sparse20", 1_000, 1)
    bounded = np.isfinite(work.lo)
    assert np.array_equal(bounded, np.isfinite(work.hi))
    assert (bounded.sum(axis=1) == 4).all()
    assert bounded[:, 0].sum() > 3 * bounded[:, -1].sum(), "the first attribute is asked for more often"


def test_texts_are_the_same_every_time() -> None:
    first, again = make_texts(300, 40), make_texts(300, 40)
    assert first.texts == again.texts
    assert first.events.equals(again.events)


def test_texts_are_mixed_as_promised() -> None:
    work = make_texts(5_000, 2_000)
    share = {word: np.mean([f" {word} " in text for text in work.texts]) for word in ("OR", "LIKE")}
    assert share == pytest.approx({"OR": 0.1, "LIKE": 0.1}, abs=0.02)
    gaps = [column.null_count / len(work.events) for column in work.events.columns]
    assert gaps == pytest.approx([0.2] * 5, abs=0.04)
    assert len(set(work.events["symbol"].to_pylist())) > 500


def test_texts_are_filters_that_find_something() -> None:
    work = make_texts(400, 300)
    engine = Engine()
    for text in work.texts:
        engine.subscribe(text)
    assert len(engine.match_table(work.events)) > 50


@pytest.mark.parametrize("name", WORKS)
def test_every_name_makes_a_work(name: str) -> None:
    work = make_work(name, 10, 5)
    assert isinstance(work, TextWork if name in TEXT_WORKS else BoxWork)
    assert (work.name, len(work), len(work.events)) == (name, 10, 5)


def test_booleans_are_nested_filters_that_find_something() -> None:
    work = make_booleans(300, 500)
    assert work.texts == make_booleans(300, 500).texts
    sizes = [text.count("BETWEEN") + text.count(" = ") for text in work.texts]
    assert min(sizes) == 3
    assert max(sizes) == 30
    assert all(word in " ".join(work.texts) for word in (" OR ", " AND ", "NOT (", "(("))
    engine = Engine()
    for text in work.texts:
        engine.subscribe(text)
    assert len(engine.match_table(work.events)) > 50
