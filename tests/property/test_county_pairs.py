"""Real regions whose borders are shared vertex by vertex, against shapely's DE-9IM: all pairs whose boxes touch."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
import shapely

from tamis.demo import datasets
from tamis.geometry.relations import relations
from tamis.index.packed.core import PackedCore
from tamis.model.schema import Schema
from tamis.model.subscription import Filter, Relation, Spatial, Subscription
from tamis.model.tables import EventTable
from tamis.model.types import Region
from tests import naive


@pytest.mark.parametrize("read", [datasets.quake_regions, datasets.counties])
def test_all_pairs_whose_boxes_touch(read: Callable[[], pa.Table]) -> None:
    regions = shapely.from_wkb(read()["region"].to_numpy(zero_copy_only=False))
    a, b = shapely.STRtree(regions).query(regions)
    codes = relations(regions[a], regions[b])
    assert (codes == naive.relations(regions[a], regions[b])).all()
    assert (codes == naive.RELATIONS.index("meets")).sum() > len(regions), "a region has neighbours"
    assert np.array_equal(np.sort(a[codes == 3]), np.arange(len(regions))), "each equals itself alone"


def test_storms_over_counties_through_the_matcher() -> None:
    """Discs of real storms meet real counties in one table: the pairs are those of an STRtree with its predicate."""
    counties = shapely.from_wkb(datasets.counties()["region"].to_numpy())[::4]
    discs = shapely.from_wkb(datasets.storms()["disc"].drop_null().to_numpy())[::12]
    some = frozenset(Relation) - {Relation.DISJOINT}
    core = PackedCore(lambda row: None)
    for row, region in enumerate(counties):
        core.add(row, Subscription(row, (Filter((Spatial("area", some, region),)),)))
    core.compact()
    offsets, rows = core.match_table(EventTable.of({"area": discs}, Schema({"area": Region()})))
    pairs = np.column_stack([np.repeat(np.arange(len(discs)), np.diff(offsets)), rows])
    want = shapely.STRtree(counties).query(discs, predicate="intersects").T
    assert len(want) > 400
    assert np.array_equal(pairs[np.lexsort(pairs.T[::-1])], want[np.lexsort(want.T[::-1])])
