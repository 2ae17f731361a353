"""Boxes over float64 axes, and which of them contain a point.

`box_index` is the index: a small `delta` that is scanned, and packed `segment` files built by `grouping` and `merge`.
`matching` asks them, `coding` turns ends into int16 codes, `outputs` keeps room for answers. No filter is known here.
"""
