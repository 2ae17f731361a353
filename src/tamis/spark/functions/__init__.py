"""Functions of SQL: does a filter match, does it cover, how do regions relate, where on the Hilbert curve is a cell.

`register` names them in a session; `evaluating` runs in the workers.
"""
