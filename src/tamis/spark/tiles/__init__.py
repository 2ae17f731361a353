"""An index in tiles, for one that is larger than a worker's memory. `tiles` plans, `tile_work` runs in the workers.

`tiling` is the arithmetic: which tiles a subscription or an event meets.
"""
