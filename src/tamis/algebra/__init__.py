"""Comparisons of filters: evaluate, cover, conflict, simplify."""
