"""Space-filling curves: cells and their keys, boxes of cells as ranges of keys."""
