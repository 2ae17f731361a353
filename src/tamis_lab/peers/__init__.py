"""Trees of real peers, grown fast and seen from above: the workload, the mail between peers, and their statistics."""
