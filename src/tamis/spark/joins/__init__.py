"""Joins of two DataFrames: who covers whom, how regions relate, which points lie in which balls, keys and ranges.

`covers`, `regions`, `balls` and `ranges` plan on the driver; `joining` runs in the workers.
"""
