"""The distributed R-tree paper."""
