"""The charts of the laboratory's report."""
