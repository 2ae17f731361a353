"""Vectors in float16 and float32 columns answer as the same numbers in float64 do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tamis import Engine, Schema, Vector

N, DIMENSION = 400, 8


def engine() -> Engine:
    rng = np.random.default_rng(5)
    made = Engine(Schema({"look": Vector(DIMENSION)}))
    for number, center in enumerate(rng.normal(size=(60, DIMENSION)).round(3).tolist()):
        made.subscribe(f"V_COSINE(look, {tuple(center)}, 0.4)", id=f"cosine {number}")
        made.subscribe(f"V_WITHIN(look, {tuple(center)}, 2.5)", id=f"ball {number}")
    return made


def arrow(rows: np.ndarray[Any, Any]) -> pa.Table:
    return pa.table({"look": pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), DIMENSION)})


@pytest.mark.parametrize("width", [np.float16, np.float32])
@pytest.mark.parametrize("form", [arrow, lambda rows: {"look": rows}], ids=["arrow", "numpy"])
def test_narrow_columns_answer_as_wide_ones(width: Any, form: Any) -> None:
    narrow = np.random.default_rng(6).normal(size=(N, DIMENSION)).astype(width)
    wide = narrow.astype(np.float64)
    made = engine()
    matches, wanted = made.match_table(form(narrow)), made.match_table(form(wide))
    assert len(wanted.rows) > 500
    assert [matches.of(row) for row in range(N)] == [wanted.of(row) for row in range(N)]
    for row in range(N):
        assert matches.of(row) == made.match({"look": narrow[row]}) == made.match({"look": wide[row].tolist()})


def test_a_rim_is_that_of_the_number_that_float16_holds() -> None:
    made = Engine(Schema({"look": Vector(1)}))
    made.subscribe("V_WITHIN(look, (0), 0.1)", id="a")
    nearest = float(np.float16(0.1))
    assert nearest < 0.1
    assert made.match_table({"look": np.array([[0.1], [0.1001]], np.float16)}).of(0) == ["a"]
    above = float(np.nextafter(np.float16(0.1), np.float16(1)))
    assert above > 0.1
    assert made.match_table({"look": np.array([[above]], np.float16)}).of(0) == []
