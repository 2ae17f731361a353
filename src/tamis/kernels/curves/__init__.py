"""Kernels on space-filling curves: keys of Z and Hilbert, and the ranges of a box."""
