"""Pairs of filters: evaluate, cover, conflict, simplify."""
