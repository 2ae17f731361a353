"""The engine: stores subscriptions and returns the ids that match an event."""

from tamis.engine.engine import Engine
from tamis.engine.matches import Matches

__all__ = ["Engine", "Matches"]
