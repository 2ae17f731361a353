"""Boxes over float64 axes, and which of them contain a point.

`box_index` is the index; start there. `parts` keeps a small `delta` that is scanned and packed `segment` files built by
`grouping` and `merge`; `homes` knows the part and slot of each row, `slots` which are alive. `matching` asks them,
`coding` turns ends into int16 codes, `outputs` keeps room for answers. No filter is known here.
"""
