"""The audit: who did what, and when. Kept on disk in the transaction that does it, and never changed.

What is noted: subscriptions and webhooks that come and go, requests that were refused for lack of rights, links to
other brokers that come up and go down, tokens that were made and revoked, and the start and stop of the broker. Events
are not: they are the traffic, and have cursors of their own.

No set of principals may push out what is noted about security. Subscriptions, webhooks and links that come and go are
*activity* and stand in a log of their own (`tamis.runtime.stores.audit_log`). There `DEEDS_PER_HOUR` deeds of a
principal are noted one by one in an hour; further ones are counted, and each kind of them is one record at the end of
the hour.

Of what remains clients can cause refusals only. The first refusal of a principal is noted at once, further ones are
counted and noted together `REFUSAL_SECONDS` later, and all principals together have `REFUSALS_PER_HOUR` records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from tamis.errors import LimitError, RefusedError
from tamis.node import records
from tamis.node.effects import Effect, Key, Persist
from tamis.node.records import TokenFile
from tamis.routing.edge.rights import Rights
from tamis.routing.messages import Subscribe

__all__ = ["ACTIVITY", "AUDITED", "DEEDS_PER_HOUR", "MAX_AUDIT", "Deed", "TokensSeen", "Trail", "deed"]

#: The kinds of entries.
AUDITED: Final = (
    "start",
    "stop",
    "subscribe",
    "unsubscribe",
    "end",
    "refuse",
    "forget types",
    "link up",
    "link down",
    "link skip",
    "link resume",
    "token add",
    "token revoke",
    "token file",
    "restore",
    "webhook set",
    "webhook remove",
    "webhook rotate",
    "webhook suspend",
    "webhook resume",
)

#: Seconds for which further refusals of the same principal are only counted.
REFUSAL_SECONDS = 10.0

#: What is noted in the log of activity.
ACTIVITY: Final = frozenset(
    {"subscribe", "unsubscribe", "end", "link up", "link down"} | {what for what in AUDITED if what[:7] == "webhook"}
)

#: Activity of one principal that is noted one by one in an hour.
DEEDS_PER_HOUR = 100

#: Refusals that are noted one by one in an hour, of one principal and of all. Half of the latter are kept for the first
#: refusal of a principal within the hour, so that a few principals cannot hide it among theirs.
REFUSALS_OF_PRINCIPAL, REFUSALS_PER_HOUR = 10, 80

#: Records for refusals that were only counted in an hour. Principals with the fewest have one each, the rest share one.
#: With those noted one by one this is less than four fifths of `MAX_AUDIT` in 90 days, for which the audit is kept.
COUNTED_REFUSALS_PER_HOUR = 10
_HOUR = 3_600_000_000

#: Records that each log of the audit keeps unless a configuration says otherwise.
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
    """The tokens that the file holds now: names, and the beginnings of their digests.

    ``file`` is the whole file if the store is to keep it for a standby; b"": it is not.
    """

    tokens: frozenset[tuple[str, str]]
    file: bytes = b""


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
    """Return an entry for what the owner of the rights did; without rights it was the broker itself."""
    who, address = (broker, "process") if by is None else (by.principal, by.address)
    return Deed(round(now * 1e6), who, what, subject[:_LONGEST], namespace, address, detail[:_LONGEST])


@dataclass(frozen=True)
class _Counted:
    """Deeds that are not noted one by one: the last of them, and how many there were."""

    last: Deed
    count: int

    def record(self, others: str = "") -> Deed:
        """Return one record for all of them; ``others`` says whose they are besides."""
        detail = f"{self.count:,} within an hour{others}, the last: {self.last.detail}"
        return msgspec.structs.replace(self.last, detail=detail[:_LONGEST])


class _Budget:
    """How many deeds of each principal were noted in the present hour, and what is counted beyond that."""

    def __init__(self) -> None:
        self._hour = 0
        self._refusals = 0
        #: ``{whose: deeds noted}``, refusals apart from activity.
        self._noted: Counter[tuple[str, ...]] = Counter()
        #: Those that were only counted, by whose they are and what they are.
        self._counted: dict[tuple[tuple[str, ...], str], _Counted] = {}

    def admit(self, deeds: list[tuple[Deed, int]]) -> list[Deed]:
        """Return the deeds that are noted one by one; what clients cannot cause always is.

        With each goes how many it stands for.
        """
        return [deed for deed, count in deeds if self._is_noted(deed, count)]

    def settle(self, now: int, *, is_end: bool = False) -> list[Deed]:
        """Return the records of what was counted, when the hour is over or the broker stops."""
        if now - self._hour < _HOUR and not is_end:
            return []
        counted, self._hour, self._refusals = self._counted, now, 0
        self._noted, self._counted = Counter(), {}
        activity = [many.record() for (_, what), many in counted.items() if what in ACTIVITY]
        refusals = sorted(
            (many for (_, what), many in counted.items() if what == "refuse"), key=lambda many: many.count
        )
        alone, rest = refusals[: COUNTED_REFUSALS_PER_HOUR - 1], refusals[COUNTED_REFUSALS_PER_HOUR - 1 :]
        if len(rest) > 1:
            total = _Counted(rest[-1].last, sum(many.count for many in rest))
            return [*activity, *(many.record() for many in alone), total.record(f" of {len(rest):,} principals")]
        return [*activity, *(many.record() for many in refusals)]

    def _is_noted(self, deed: Deed, count: int) -> bool:
        # Subscriptions that expire are ended by the broker: each namespace has a budget for those.
        whose: tuple[str, ...] = (deed.who, deed.namespace) if deed.address == "process" else (deed.who,)
        if deed.what in ACTIVITY:
            is_noted = self._noted[whose] < DEEDS_PER_HOUR
        elif deed.what == "refuse":
            whose = ("refused", deed.who, "")
            mine = self._noted[whose]
            most = REFUSALS_PER_HOUR if not mine else REFUSALS_PER_HOUR // 2
            is_noted = mine < REFUSALS_OF_PRINCIPAL and self._refusals < most
            self._refusals += is_noted
        else:
            return True
        if is_noted:
            self._noted[whose] += 1
        else:
            before = self._counted.get((whose, deed.what), _Counted(deed, 0)).count
            self._counted[whose, deed.what] = _Counted(deed, before + count)
        return is_noted


class Trail:
    """What is to be noted, until it goes to disk with the transaction under way.

    >>> trail = Trail()
    >>> trail.note(Deed(0, "alice", "subscribe", "strong"))
    >>> [change.key for change in trail.take()], trail.take()
    ([('activity', '1')], [])
    """

    def __init__(self, number: int = 0) -> None:
        #: The number of the last deed on disk, or on its way there.
        self.number = number
        #: Who wants what is being done; None: the broker itself.
        self.actor: Rights | None = None
        #: Deeds, and how many of them each record stands for.
        self._noted: list[tuple[Deed, int]] = []
        #: Records of what was counted in the hour before.
        self._sums: list[Deed] = []
        #: What others do, as far as it is noted one by one.
        self._budget = _Budget()
        #: ``{who: (moment of the refusal that was noted, the last one since, how many since)}``.
        self._refused: dict[str, tuple[int, Deed, int]] = {}
        self._tokens: frozenset[tuple[str, str]] = frozenset()
        #: The token file that is kept for a standby.
        self.token_file = TokenFile(0, b"")

    def restore(self, stored: Mapping[Key, bytes]) -> None:
        """Take back which tokens were seen last."""
        self._tokens = frozenset(records.TOKENS.find(stored) or ())
        self.token_file = records.TOKEN_FILE.find(stored) or self.token_file

    def note(self, one: Deed) -> None:
        """Note a deed; a refusal soon after another of the same principal is only counted."""
        if one.what == "stop":
            for who in list(self._refused):
                self._settle(who)
        if one.what != "refuse":
            self._noted.append((one, 1))
            return
        first, _, count = self._refused.get(one.who, (0, one, 0))
        if one.who in self._refused and one.at - first < REFUSAL_SECONDS * 1e6:
            self._refused[one.who] = (first, one, count + 1)
        else:
            self._settle(one.who)
            self._noted.append((one, 1))
            self._refused[one.who] = (one.at, one, 0)

    def note_all(self, deeds: Iterable[Deed]) -> list[Effect]:
        """Note deeds; what to persist of them comes with the transaction."""
        for one in deeds:
            self.note(one)
        return []

    def note_subscription(self, now: float, what: str, subscription: Subscribe, detail: str, broker: str) -> None:
        """Note that the actor subscribed or unsubscribed, or that a subscription ended."""
        subject, namespace = str(subscription.id), subscription.namespace
        self.note(deed(now, self.actor, what, subject=subject, namespace=namespace, detail=detail, broker=broker))

    def note_error(self, now: float, by: Rights, subject: str, namespace: str, error: Exception) -> None:
        """Note a request that was refused for lack of rights or because of a limit; plain mistakes are not noted."""
        if isinstance(error, RefusedError | LimitError):
            self.note(deed(now, by, "refuse", subject=subject, namespace=namespace, detail=str(error)))

    def tick(self, now: float) -> None:
        """Note the refusals that were counted long enough."""
        for who, (first, _, _) in list(self._refused.items()):
            if now * 1e6 - first >= REFUSAL_SECONDS * 1e6:
                self._settle(who)
        self._sums += self._budget.settle(round(now * 1e6))

    def see_tokens(self, seen: TokensSeen, now: float) -> list[Effect]:
        """Note which tokens came and went since the last look; return what to persist."""
        kept: list[Effect] = []
        if seen.file and seen.file != self.token_file.tokens:
            self.token_file = TokenFile(self.token_file.version + 1, seen.file)
            kept.append(records.TOKEN_FILE.put(value=self.token_file))
        if seen.tokens == self._tokens:
            return kept
        for what, changed in (("token revoke", self._tokens - seen.tokens), ("token add", seen.tokens - self._tokens)):
            for name, _ in sorted(changed):
                self.note(Deed(round(now * 1e6), "operator", what, name, address="file"))
        self._tokens = seen.tokens
        return [*kept, records.TOKENS.put(value=sorted(seen.tokens))]

    def take(self) -> list[Persist]:
        """Return what was noted since, numbered, as changes of the disk."""
        found = []
        admitted = self._budget.admit(self._noted)
        for one in admitted:
            if one.what == "stop":  # what was only counted would be forgotten with this process
                self._sums += self._budget.settle(one.at, is_end=True)
        for one in [*self._sums, *admitted]:
            self.number += 1
            kind = records.ACTIVITY if one.what in ACTIVITY else records.AUDIT
            found.append(kind.put(str(self.number), value=msgspec.msgpack.encode(one)))
        self._noted.clear()
        self._sums.clear()
        return found

    def _settle(self, who: str) -> None:
        _, last, count = self._refused.pop(who, (0, None, 0))
        if last is not None and count:
            more = f"{count:,} more, the last: {last.detail}"
            self._noted.append((msgspec.structs.replace(last, detail=more[:_LONGEST]), count))
