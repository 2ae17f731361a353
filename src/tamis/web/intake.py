"""Bytes of requests that a broker holds at the same time, by principal and in all (promise S26)."""

from __future__ import annotations

from collections import Counter

from starlette.requests import Request

from tamis.errors import RefusedError
from tamis.routing.edge.limits import MAX_READING, MAX_READING_OF_PRINCIPAL

__all__ = ["BodyIntake", "principal_of"]


class BodyIntake:
    """Counts the bytes of request bodies from their first chunk until the request was answered.

    >>> from types import SimpleNamespace
    >>> intake, request = BodyIntake(of_principal=10), SimpleNamespace(state=SimpleNamespace())
    >>> intake.take(request, 7) or intake.held
    7
    >>> intake.take(request, 7)
    Traceback (most recent call last):
    tamis.errors.RefusedError: other requests of 'stranger' are being read; send this one again later
    >>> intake.release(request) or intake.held
    0
    """

    def __init__(self, of_principal: int = MAX_READING_OF_PRINCIPAL, in_all: int = MAX_READING) -> None:
        self._of_principal = of_principal
        self._in_all = in_all
        self._held: Counter[str] = Counter()
        #: Bytes that are held now.
        self.held = 0

    def take(self, request: Request, n: int) -> None:
        """Count ``n`` more bytes of a request; `RefusedError` (503) when its principal, or all, then hold too many."""
        principal = principal_of(request)
        if self._held[principal] + n > self._of_principal:
            raise RefusedError(503, f"other requests of {principal!r} are being read; send this one again later")
        if self.held + n > self._in_all:
            raise RefusedError(503, "too many requests are being read; send this one again later")
        self._held[principal] += n
        self.held += n
        request.state.held_bytes = getattr(request.state, "held_bytes", 0) + n

    def release(self, request: Request) -> None:
        """Forget the bytes of a request that was answered."""
        n, principal = getattr(request.state, "held_bytes", 0), principal_of(request)
        request.state.held_bytes = 0
        self.held -= n
        self._held[principal] -= n
        if self._held[principal] <= 0:
            del self._held[principal]


def principal_of(request: Request) -> str:
    """Return the principal of a request, ``stranger`` for one without a good token."""
    rights = getattr(request.state, "rights", None)
    return "stranger" if rights is None else str(rights.principal)
