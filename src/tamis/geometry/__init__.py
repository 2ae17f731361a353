"""Regions and balls: the exact geometry that decides when the boxes cannot."""
