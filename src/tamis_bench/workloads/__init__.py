"""Boxes, balls and regions drawn from a seed: the same name, size and seed give the same numbers everywhere."""
