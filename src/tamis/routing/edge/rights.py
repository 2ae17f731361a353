"""The rights of a connected principal: its namespaces, its limits, and the policy on its events."""

from __future__ import annotations

from dataclasses import dataclass, field

from tamis.errors import RefusedError
from tamis.routing.edge.limits import MAX_SUBSCRIPTIONS

__all__ = ["Rights"]


@dataclass(frozen=True)
class Rights:
    """The rights of one principal.

    ``namespaces`` are those it may use, None for all; ``policy`` is a filter as CQL2 text that every subscription is
    joined to and every published event must match (promise S6).
    """

    principal: str
    namespaces: frozenset[str] | None = None
    may_publish: bool = True
    may_subscribe: bool = True
    is_admin: bool = False
    policy: str | None = None
    max_subscriptions: int = MAX_SUBSCRIPTIONS
    #: Where its requests come from, for the audit.
    address: str = "process"
    #: The SHA-256 of its token, "" without one. A name may be issued again, a digest is not.
    digest: str = field(default="", compare=False, repr=False)

    def sees(self, namespace: str) -> bool:
        """Whether anything of a namespace may be shown."""
        return self.namespaces is None or namespace in self.namespaces

    def demand_reading(self) -> None:
        """Raise `RefusedError` for a token that may only publish: events, filters and names are not shown to it."""
        if not self.may_subscribe:
            raise RefusedError(403, f"{self.principal!r} may not read: its token is for publishing only")

    def demand(self, verb: str, namespace: str) -> None:
        """Raise `RefusedError` unless this principal may ``publish`` or ``subscribe`` in a namespace."""
        if not (self.may_publish if verb == "publish" else self.may_subscribe):
            raise RefusedError(403, f"{self.principal!r} may not {verb}")
        if not self.sees(namespace):
            raise RefusedError(403, f"{self.principal!r} has no access to namespace {namespace!r}")
