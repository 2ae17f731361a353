"""The stages of a reduction: covering, subsumption and merging, for boxes as arrays and for other filters one by one.

`box_stages` works on a `group` of boxes that share their axes, `item_stages` on single items with their candidates.
"""
