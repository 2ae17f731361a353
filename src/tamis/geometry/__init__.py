"""Exact geometry of regions and balls, used where comparing boxes is not enough."""
