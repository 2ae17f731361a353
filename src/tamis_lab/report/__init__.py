"""The report: everything a directory of results knows, as one page. `contents` gathers, `html` and `markdown` write.

`comparison` sets the verdicts of two directories side by side.
"""
