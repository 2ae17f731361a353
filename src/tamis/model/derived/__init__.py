"""Values computed from the attributes of an event: the local time of a timestamp, and the results of expressions.

A computed value has a name of its own, which no attribute can have, and an axis of the index like an attribute's. Begin
with `formulas`; `functions` has the functions that users register.
"""
