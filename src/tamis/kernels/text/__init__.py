"""Text: which literals a column of strings holds, and whether strings fit LIKE patterns.

Strings are UTF-8 bytes and offsets, as Arrow has them. `automaton` builds the scanner of many literals, `scan` runs it,
`like` decides one pattern, `propose` joins both for the entries of an index.
"""
