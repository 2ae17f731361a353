"""The engine: subscriptions in, events in, matching ids out."""

from tamis.engine.engine import Engine
from tamis.engine.matches import Matches

__all__ = ["Engine", "Matches"]
