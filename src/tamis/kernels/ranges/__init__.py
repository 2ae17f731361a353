"""Kernels on ranges of keys: a B+-tree in arrays, counted ranges, and ranges with their owners."""
