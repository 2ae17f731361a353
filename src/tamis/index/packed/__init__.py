"""The default matcher: packed box segments, a small delta, tombstones, merges. Box first, exact last."""
