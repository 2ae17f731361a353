"""Rules are parsed when they are checked; to index, tile and reduce them parses nothing again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

import tamis
from tamis.algebra import compiling
from tamis.algebra.compiling import compile_source
from tamis.spark.reduction.reducing import Reduce, cover_tiles, spread_to_tiles, unite
from tamis.spark.snapshots.building import Build, build_batches
from tamis.spark.subscriptions.compile import accepted_form, compiled_form
from tamis.spark.subscriptions.compiling import Compile, compile_batches
from tamis.spark.subscriptions.rule_texts import reader_of
from tamis.spark.subscriptions.typed import TypedColumns
from tamis.spark.tiles.tile_work import TileBuild, extents_of, subscription_extents, tiled_subscriptions
from tamis.spark.tiles.tiling import TileAxis, Tiling, hull
from tests.spark.worlds import SCHEMA, texts

ACCEPTED = to_arrow_schema(accepted_form("string"), timezone="UTC")
COMPILED = to_arrow_schema(compiled_form("string"), timezone="UTC")
NUMBERS = pa.int32()
TILING = Tiling([TileAxis("price", "value", [20.0, 40.0, 60.0]), TileAxis("volume", "value", [5.0])])


def prepared(n: int, **columns: Any) -> pa.RecordBatch:
    """Return rows as the workers get them."""
    kinds = {"id": pa.string(), "namespace": pa.string(), "expires": pa.string()}
    nothing = pa.nulls(n, pa.map_(pa.string(), pa.string()))
    defaults = {"id": [f"s{i}" for i in range(n)], "namespace": ["default"] * n, "expires": [None] * n}
    arrays = {name: pa.array(values, kinds[name]) for name, values in defaults.items()}
    return pa.RecordBatch.from_pydict({**arrays, "metadata": nothing, "conflict": [False] * n, **columns})


def accepted_rows(batches: list[pa.RecordBatch]) -> pa.Table:
    compiled = pa.Table.from_batches(batches)
    assert compiled["reason"].null_count == len(compiled)
    return compiled.select(ACCEPTED.names).combine_chunks()


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every text that is parsed, in order."""
    parsed_texts: list[str] = []
    parse = compiling.parse

    def noted(source: Any) -> Any:
        parsed_texts.append(source)
        return parse(source)

    monkeypatch.setattr(compiling, "parse", noted)
    return parsed_texts


def test_later_stages_parse_nothing(parsed: list[str], tmp_path: Path) -> None:
    schema = tamis.Schema({**SCHEMA, "only_here": tamis.Number()}).to_json()  # no reader knows it yet
    written = texts(400, seed=71)
    batch = prepared(len(written), filter=written)
    rows = accepted_rows(list(compile_batches(iter([batch]), task=Compile(schema, None), form=COMPILED)))
    checked = len(parsed)
    assert 0 < checked < len(written)  # by their shapes
    parsed.clear()
    batches, tiling = rows.to_batches(), msgspec.json.encode(TILING).decode()
    list(build_batches(iter(batches), task=Build(str(tmp_path), schema)))
    middles = pa.schema([("middle0", pa.float64()), ("middle1", pa.float64())])
    axes = msgspec.json.encode(TILING.axes).decode()
    list(extents_of(iter(batches), schema=schema, axes=axes, form=middles))
    wide = pa.schema([*ACCEPTED, ("tile", NUMBERS), ("low", NUMBERS)])
    list(tiled_subscriptions(iter(batches), task=TileBuild("", schema, tiling), form=wide))
    spread = pa.schema([*ACCEPTED, ("tile", NUMBERS), ("copies", NUMBERS)])
    tiled = list(spread_to_tiles(iter(batches), task=Reduce(schema, tiling, False, 0, spread)))
    ordered = pa.Table.from_batches(tiled).sort_by([("namespace", "ascending"), ("tile", "ascending")])
    columns = [*ACCEPTED, ("rule", pa.string()), ("by", pa.list_(pa.string()))]
    task = Reduce(schema, "", False, 0, pa.schema([*columns, ("copies", NUMBERS)]))
    covered = pa.Table.from_batches(cover_tiles(iter(ordered.to_batches()), task=task))
    left = covered.filter(covered["rule"].is_null()).select(ACCEPTED.names).to_batches()
    assert sum(batch.num_rows for batch in left) > 50
    list(unite(iter(left), task=Reduce(schema, "", False, 1_000, pa.schema(columns))))
    assert parsed == []


def test_extents_are_those_of_the_filters() -> None:
    """Whichever way a rule is read: as a column of ranges, as filters, as a box."""
    schema, written = SCHEMA.to_json(), texts(1_200, seed=72)
    rows = [{"id": f"s{i}", "filter": text} for i, text in enumerate(written)]
    rows += [{"id": "box", "lo": [1.0, -np.inf], "hi": [2.0, np.inf]}]
    batch = pa.RecordBatch.from_pylist(rows, schema=ACCEPTED)
    axes = TILING.axes
    for found_axes in (axes, [TileAxis("area", "x"), TileAxis("area", "y")]):
        lo, hi, missing = subscription_extents(batch, reader_of(schema), found_axes)
        for row, text in enumerate(written):
            filters = compile_source(text, SCHEMA).filters
            for number, axis in enumerate(found_axes):
                low, high, absent = hull(filters, axis)
                assert missing[row, number] == absent, text
                if low > high:
                    assert lo[row, number] > hi[row, number], text
                else:
                    # A hull ends one float64 outside of the number in the text; no more is left out.
                    assert np.nextafter(low, -np.inf) <= lo[row, number] <= np.nextafter(low, np.inf), text
                    assert np.nextafter(high, -np.inf) <= hi[row, number] <= np.nextafter(high, np.inf), text
    lo, hi, missing = subscription_extents(batch, reader_of(schema), axes)
    assert (lo[-1].tolist(), hi[-1].tolist(), missing[-1].tolist()) == ([1.0, -np.inf], [2.0, np.inf], [False, True])


def test_typed_columns_are_written_without_being_parsed(parsed: list[str]) -> None:
    """But for the different values of columns that are not numbers; wrong ones are named by row."""
    schema, n = tamis.Schema({"price": tamis.Number(), "symbol": tamis.String(), "of typed": tamis.Number()}), 2_000
    low = np.arange(n) / 10
    typed = TypedColumns.of({"price": ("low", "high"), "symbol": "symbol"}, schema)
    symbols = pa.array([None if i % 7 == 0 else f"S'{i % 5}" for i in range(n)])
    batch = prepared(n, low=low, high=pa.array(low + 1, mask=np.arange(n) % 3 == 0), symbol=symbols)
    rows = accepted_rows(list(compile_batches(iter([batch]), task=Compile(schema.to_json(), typed), form=COMPILED)))
    assert len(parsed) <= 2
    texts = rows["filter"].to_pylist()
    assert texts[1] == "price >= 0.1 AND price <= 1.1 AND symbol = 'S''1'"
    assert (texts[0], texts[3]) == ("price >= 0.0", "price >= 0.3 AND symbol = 'S''3'")
    bad = prepared(3, low=[1.0, float("nan"), 2.0], high=[2.0, 3.0, 4.0], symbol=["a", "b", "x" * 20_000])
    rejected = pa.Table.from_batches(compile_batches(iter([bad]), task=Compile(schema.to_json(), typed), form=COMPILED))
    reasons = {row["id"]: row["reason"] for row in rejected.to_pylist()}
    assert reasons["s0"] is None
    assert "'low'" in reasons["s1"]
    assert "characters of filter text" in reasons["s2"]
