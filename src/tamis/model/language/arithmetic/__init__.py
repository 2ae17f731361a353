"""Expressions in conditions: how they are read (`reading`), written (`writing`) and given a meaning (`binding`).

`linear` brings numbers into one form, so that conditions on the same sums share an axis; `sets` has the sets of values
that comparisons stand for.
"""
