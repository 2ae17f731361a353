"""Real regions whose borders are shared vertex by vertex, against shapely's DE-9IM: all pairs whose boxes touch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import shapely

from tamis.geometry.relations import relations
from tamis.workload import datasets
from tests import naive


@pytest.mark.parametrize("name", ["quake_regions", "counties"])
def test_all_pairs_whose_boxes_touch(name: str) -> None:
    read: Any = getattr(datasets, name, None)
    if read is None:
        pytest.skip(f"not run: tamis.workload.datasets has no {name} yet")
    regions = shapely.from_wkb(read()["region"].to_numpy(zero_copy_only=False))
    a, b = shapely.STRtree(regions).query(regions)
    found = relations(regions[a], regions[b])
    assert (found == naive.relations(regions[a], regions[b])).all()
    assert (found == naive.RELATIONS.index("meets")).sum() > len(regions), "a region has neighbours"
    assert np.array_equal(np.sort(a[found == 3]), np.arange(len(regions))), "each equals itself alone"
