"""Decides candidates whose boxes are not exact: by LIKE patterns, regions, balls, and finally raw values.

`combined` asks all kinds for many pairs at once; `entries` keeps which row needs which of them. Start with `combined`.
"""
