"""Kernels on boxes: find the boxes around a point, the boxes around a box, and what is left of a box.

`sparse` is the layout in memory, `quantise` the int16 codes. `tree` and `pairs` are the two searches, `fit` their inner
test, `match` and `staged` run them over events. `dominance` and `subtract` serve covering.
"""
