"""Where rows go: one module per kind of sink, listed in `registry`.

A sink takes rows in two ways: `replace` puts them in the place of all that is there, and `write_batch` adds those of
one micro-batch of one query. A batch that is written again gives the same rows once, whatever was killed in between.
"""
