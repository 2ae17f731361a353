"""Kernels on polygons: exact predicates, rings as flat arrays, and the eight relations of two regions.

`ring` has the exact arithmetic, `flat_rings` the layout, `polygon` the relation of two rings, `region_tests` many at
once.
"""
