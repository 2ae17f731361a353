"""The core of a broker: the routing table, what neighbours are told, and where events go."""
