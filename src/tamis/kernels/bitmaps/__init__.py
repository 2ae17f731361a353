"""Bitmaps: one bit per box and bucket of values, for boxes that constrain many axes in wide ranges.

`order` puts boxes that look alike into leaves of 512, `build` writes the bitmaps of each leaf, `words` combines them in
vector registers, `match` finds the boxes around events.
"""
