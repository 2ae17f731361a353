"""Whether conditions of one subscription imply those of another, many pairs at a time."""
