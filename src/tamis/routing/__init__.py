"""The acyclic network of brokers: who hears of a subscription, and where an event goes."""
