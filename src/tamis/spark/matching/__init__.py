"""Events meet a snapshot. Start with `match`, the plan on the driver; `matching` is what the workers run."""
