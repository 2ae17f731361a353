"""Expressions in conditions: parsing (`reading`), formatting (`writing`) and binding to a schema (`binding`).

`linear` brings numbers into one form, so that conditions on the same sums share an axis; `sets` has the sets of values
that comparisons stand for.
"""
