"""Patterns of text in a covering index: found by the literals that they require."""
