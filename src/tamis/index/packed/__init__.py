"""The default matcher: packed box segments, a small delta, tombstones, merges. Boxes first, exact values last."""
