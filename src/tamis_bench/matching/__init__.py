"""Events against boxes: tamis beside SQL engines and R-trees."""
