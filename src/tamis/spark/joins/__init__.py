"""Joins of two DataFrames: which filters cover which, how regions relate, which points lie in balls, keys and ranges.

`covers`, `regions`, `balls` and `ranges` plan on the driver; `joining` runs in the workers.
"""
