"""The core of a broker: the routing table, what is announced to neighbours, and where events go."""
