"""What decides candidates whose boxes only propose: LIKE patterns, regions, balls, and raw values at last.

`combined` asks all kinds for many pairs at once; `entries` keeps which row needs which of them. Start with `combined`.
"""
