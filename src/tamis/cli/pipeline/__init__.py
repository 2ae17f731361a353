"""``tamis pipeline``: run, init and demo, and what they show while Spark works."""
