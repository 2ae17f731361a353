"""How covering and conflicts are proved: pieces of a filter, facts about single constraints, witnesses against.

`pieces` subtracts filters from one another, `facts` compares two constraints on one attribute (`patterns`, `regions`
and `balls` know their kinds), `witness` looks for an event that refutes, and `budget` bounds the work. Start with
`pieces`.
"""
