"""The edge of a broker: which messages of clients are accepted, and how many may wait for them."""
