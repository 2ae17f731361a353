"""The audit: who did what, and when. Kept on disk in the transaction that does it, and never changed.

What is noted: subscriptions that come and go, requests that were refused because somebody may not, links to other
brokers that come up and go down, tokens that were made and revoked, and the start and stop of the broker. Events are
not: they are the traffic, and have cursors of their own.

No principal may push out what is noted about others. The first refusal of a principal is noted at once, further ones
are counted and noted together `REFUSAL_SECONDS` later. Of all that a principal does `DEEDS_PER_HOUR` deeds are noted
one by one in an hour; further ones are counted, and each kind of them is one record at the end of the hour.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from tamis.errors import LimitError, RefusedError
from tamis.node import records
from tamis.node.effects import Effect, Key, Persist
from tamis.routing.edge.rights import Rights
from tamis.routing.messages import Subscribe

__all__ = ["AUDITED", "DEEDS_PER_HOUR", "MAX_AUDIT", "Deed", "TokensSeen", "Trail", "deed"]

#: What somebody may be noted for.
AUDITED: Final = (
    "start",
    "stop",
    "subscribe",
    "unsubscribe",
    "end",
    "refuse",
    "link up",
    "link down",
    "token add",
    "token revoke",
    "token file",
    "restore",
)

#: Seconds for which further refusals of somebody are only counted.
REFUSAL_SECONDS = 10.0

#: Deeds of one principal that are noted one by one in an hour. With those that are counted that is less than
#: `MAX_AUDIT` in 90 days, for which the audit is kept.
DEEDS_PER_HOUR = 100
_HOUR = 3_600_000_000

#: Records of the audit that are kept unless a configuration says otherwise.
MAX_AUDIT = 250_000

#: Characters of a subject and of a detail that are kept.
_LONGEST = 200


class Deed(msgspec.Struct, frozen=True, array_like=True):
    """One line of the audit.

    ``at`` is in microseconds UTC; ``who`` the name of a token, ``local`` or the broker's own; ``address`` the kind of
    place it came from: ``loopback``, ``remote``, ``broker``, ``file``, ``process``. ``what`` is one of `AUDITED`.
    """

    at: int
    who: str
    what: str
    subject: str = ""
    namespace: str = ""
    address: str = "process"
    detail: str = ""


@dataclass(frozen=True)
class TokensSeen:
    """The tokens that the file holds now: names, and the beginnings of their digests."""

    tokens: frozenset[tuple[str, str]]


def deed(
    now: float,
    by: Rights | None,
    what: str,
    *,
    subject: str = "",
    namespace: str = "",
    detail: str = "",
    broker: str = "",
) -> Deed:
    """Return what somebody did; without rights it was the broker itself."""
    who, address = (broker, "process") if by is None else (by.principal, by.address)
    return Deed(round(now * 1e6), who, what, subject[:_LONGEST], namespace, address, detail[:_LONGEST])


class _Budget:
    """How many deeds of each principal were noted in the present hour, and what is counted beyond that."""

    def __init__(self) -> None:
        self._hour = 0
        #: ``{who: deeds noted}``.
        self._noted: dict[str, int] = {}
        #: ``{(who, what): (the last deed, how many)}`` of those that were only counted.
        self._counted: dict[tuple[str, str], tuple[Deed, int]] = {}

    def admit(self, deeds: list[Deed]) -> list[Deed]:
        """Return the deeds that are noted one by one; what the broker and its operator do always is."""
        admitted: list[Deed] = []
        for one in deeds:
            noted = self._noted.get(one.who, 0)
            if one.address in ("process", "file") or noted < DEEDS_PER_HOUR:
                self._noted[one.who] = noted + 1
                admitted.append(one)
            else:
                _, count = self._counted.get((one.who, one.what), (one, 0))
                self._counted[one.who, one.what] = (one, count + 1)
        return admitted

    def settle(self, now: int) -> list[Deed]:
        """Return one record for each principal and kind of what was counted, when the hour is over."""
        if now - self._hour < _HOUR:
            return []
        counted, self._hour, self._noted, self._counted = self._counted, now, {}, {}
        return [
            msgspec.structs.replace(last, detail=f"{count:,} within an hour, the last: {last.detail}"[:_LONGEST])
            for last, count in counted.values()
        ]


class Trail:
    """What is to be noted, until it goes to disk with the transaction under way.

    >>> trail = Trail()
    >>> trail.note(Deed(0, "alice", "subscribe", "strong"))
    >>> [change.key for change in trail.take()], trail.take()
    ([('audit', '1')], [])
    """

    def __init__(self, number: int = 0) -> None:
        #: The number of the last deed on disk, or on its way there.
        self.number = number
        #: Who wants what is being done; None: the broker itself.
        self.actor: Rights | None = None
        self._noted: list[Deed] = []
        #: What others do, as far as it is noted one by one.
        self._budget = _Budget()
        #: ``{who: (moment of the refusal that was noted, the last one since, how many since)}``.
        self._refused: dict[str, tuple[int, Deed, int]] = {}
        self._tokens: frozenset[tuple[str, str]] = frozenset()

    def restore(self, stored: Mapping[Key, bytes]) -> None:
        """Take back which tokens were seen last."""
        self._tokens = frozenset(records.TOKENS.find(stored) or ())

    def note(self, one: Deed) -> None:
        """Note a deed; a refusal of somebody who was refused just now is counted."""
        if one.what != "refuse":
            self._noted.append(one)
            return
        first, _, count = self._refused.get(one.who, (0, one, 0))
        if one.who in self._refused and one.at - first < REFUSAL_SECONDS * 1e6:
            self._refused[one.who] = (first, one, count + 1)
        else:
            self._settle(one.who)
            self._noted.append(one)
            self._refused[one.who] = (one.at, one, 0)

    def note_subscription(self, now: float, what: str, subscription: Subscribe, detail: str, broker: str) -> None:
        """Note that the actor subscribed or unsubscribed, or that a subscription ended."""
        subject, namespace = str(subscription.id), subscription.namespace
        self.note(deed(now, self.actor, what, subject=subject, namespace=namespace, detail=detail, broker=broker))

    def note_error(self, now: float, by: Rights, subject: str, namespace: str, error: Exception) -> None:
        """Note that somebody was refused because of who it is or how much it wants; plain mistakes are not noted."""
        if isinstance(error, RefusedError | LimitError):
            self.note(deed(now, by, "refuse", subject=subject, namespace=namespace, detail=str(error)))

    def tick(self, now: float) -> None:
        """Note the refusals that were counted long enough."""
        for who, (first, _, _) in list(self._refused.items()):
            if now * 1e6 - first >= REFUSAL_SECONDS * 1e6:
                self._settle(who)
        self._noted += self._budget.settle(round(now * 1e6))

    def see_tokens(self, seen: TokensSeen, now: float) -> list[Effect]:
        """Note which tokens came and went since the last look; return what to persist."""
        if seen.tokens == self._tokens:
            return []
        for what, changed in (("token revoke", self._tokens - seen.tokens), ("token add", seen.tokens - self._tokens)):
            for name, _ in sorted(changed):
                self.note(Deed(round(now * 1e6), "operator", what, name, address="file"))
        self._tokens = seen.tokens
        return [records.TOKENS.put(value=sorted(seen.tokens))]

    def take(self) -> list[Persist]:
        """Return what was noted since, numbered, as changes of the disk."""
        found = []
        for one in self._budget.admit(self._noted):
            self.number += 1
            found.append(records.AUDIT.put(str(self.number), value=msgspec.msgpack.encode(one)))
        self._noted.clear()
        return found

    def _settle(self, who: str) -> None:
        _, last, count = self._refused.pop(who, (0, None, 0))
        if last is not None and count:
            more = f"{count:,} more, the last: {last.detail}"
            self._noted.append(msgspec.structs.replace(last, detail=more[:_LONGEST]))
