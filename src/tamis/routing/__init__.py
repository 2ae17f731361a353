"""The acyclic network of brokers: which neighbours are sent a subscription, and where an event goes."""
