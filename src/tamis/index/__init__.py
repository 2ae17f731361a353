"""The data structures: every algorithm that finds subscriptions, under common protocols."""
