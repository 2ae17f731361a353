"""The part of tamis that runs on a network is an extra: one clear error when it is not installed."""

from __future__ import annotations

from importlib.util import find_spec

from tamis.errors import MissingExtraError

__all__ = ["demand_server"]

_PARTS = ("apsw", "starlette", "uvicorn", "websockets", "prometheus_client")


def demand_server(feature: str) -> None:
    """Raise `MissingExtraError` unless all packages that ``feature`` needs are installed."""
    if any(find_spec(name) is None for name in _PARTS):
        raise MissingExtraError(feature, "server")
