"""Benchmarks: what is measured, on which systems, and how it is told. ``tamis bench`` runs them."""
