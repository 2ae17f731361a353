"""The audit: who did what, and when. A record is written in the transaction of its action, and never changed.

Recorded are: new and ended subscriptions and webhooks, requests that were refused for lack of rights, links to other
brokers that come up and go down, tokens that were made and revoked, and the start and stop of the broker. Events are
not: they are the traffic, and have cursors of their own.

No set of principals may push out records about security. Subscriptions, webhooks and links that come and go are
*activity* and have a log of their own (`tamis.runtime.stores.audit_log`). It records `DEEDS_PER_HOUR` deeds of a
principal in an hour one by one; further deeds are counted, and each kind of them becomes one record at the end of the
hour.

In the other log clients can only cause refusals. The first refusal of a principal is recorded at once, further ones are
counted and recorded together `REFUSAL_SECONDS` later, and all principals together have `REFUSALS_PER_HOUR` records.
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

#: The kinds that are recorded in the log of activity.
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

    ``at`` is in microseconds UTC; ``who`` is the name of a token, ``local`` or the name of the broker; ``address`` is
    where the request came from: ``loopback``, ``remote``, ``broker``, ``file``, ``process``. ``what`` is one of
    `AUDITED`.
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
    """Return a record of an action by the owner of the rights; without rights, by the broker itself."""
    who, address = (broker, "process") if by is None else (by.principal, by.address)
    return Deed(round(now * 1e6), who, what, subject[:_LONGEST], namespace, address, detail[:_LONGEST])


@dataclass(frozen=True)
class _Counted:
    """Deeds that are not recorded one by one: the last of them, and their number."""

    last: Deed
    count: int

    def record(self, owners: str = "") -> Deed:
        """Return one record for all of them; ``owners`` names the principals if there are several."""
        detail = f"{self.count:,} within an hour{owners}, the last: {self.last.detail}"
        return msgspec.structs.replace(self.last, detail=detail[:_LONGEST])


class _Budget:
    """How many deeds of each principal were recorded in the current hour, and how many were only counted."""

    def __init__(self) -> None:
        self._hour = 0
        self._refusals = 0
        #: ``{account: deeds recorded}``; refusals and activity have separate accounts.
        self._noted: Counter[tuple[str, ...]] = Counter()
        #: Deeds that were only counted, by account and kind.
        self._counted: dict[tuple[tuple[str, ...], str], _Counted] = {}

    def admit(self, deeds: list[tuple[Deed, int]]) -> list[Deed]:
        """Return the deeds that are recorded one by one; those that clients cannot cause always are.

        Each deed comes with the number of deeds that it stands for.
        """
        return [deed for deed, count in deeds if self._is_noted(deed, count)]

    def settle(self, now: int, *, is_end: bool = False) -> list[Deed]:
        """Return the records of counted deeds if the hour is over or the broker stops."""
        if now - self._hour < _HOUR and not is_end:
            return []
        counted, self._hour, self._refusals = self._counted, now, 0
        self._noted, self._counted = Counter(), {}
        activity = [counted_deeds.record() for (_, kind), counted_deeds in counted.items() if kind in ACTIVITY]
        refusals = sorted(
            (counted_deeds for (_, kind), counted_deeds in counted.items() if kind == "refuse"),
            key=lambda counted_deeds: counted_deeds.count,
        )
        single, joint = refusals[: COUNTED_REFUSALS_PER_HOUR - 1], refusals[COUNTED_REFUSALS_PER_HOUR - 1 :]
        if len(joint) > 1:
            total = _Counted(joint[-1].last, sum(counted_deeds.count for counted_deeds in joint))
            return [
                *activity,
                *(counted_deeds.record() for counted_deeds in single),
                total.record(f" of {len(joint):,} principals"),
            ]
        return [*activity, *(counted_deeds.record() for counted_deeds in refusals)]

    def _is_noted(self, deed: Deed, count: int) -> bool:
        # The broker itself ends subscriptions that expire: each namespace has a budget for those.
        account: tuple[str, ...] = (deed.who, deed.namespace) if deed.address == "process" else (deed.who,)
        if deed.what in ACTIVITY:
            is_noted = self._noted[account] < DEEDS_PER_HOUR
        elif deed.what == "refuse":
            account = ("refused", deed.who, "")
            n_noted = self._noted[account]
            limit = REFUSALS_PER_HOUR if not n_noted else REFUSALS_PER_HOUR // 2
            is_noted = n_noted < REFUSALS_OF_PRINCIPAL and self._refusals < limit
            self._refusals += is_noted
        else:
            return True
        if is_noted:
            self._noted[account] += 1
        else:
            n_counted = self._counted.get((account, deed.what), _Counted(deed, 0)).count
            self._counted[account, deed.what] = _Counted(deed, n_counted + count)
        return is_noted


class Trail:
    """The records of the current transaction, until they are written to disk with it.

    >>> trail = Trail()
    >>> trail.note(Deed(0, "alice", "subscribe", "strong"))
    >>> [change.key for change in trail.take()], trail.take()
    ([('activity', '1')], [])
    """

    def __init__(self, number: int = 0) -> None:
        #: The number of the last deed on disk, or on its way there.
        self.number = number
        #: The principal whose request is being handled; None: the broker itself.
        self.actor: Rights | None = None
        #: Deeds, each with the number of deeds that it stands for.
        self._noted: list[tuple[Deed, int]] = []
        #: Records of the deeds that were counted in the previous hour.
        self._sums: list[Deed] = []
        #: Limits how many deeds are recorded one by one.
        self._budget = _Budget()
        #: ``{who: (moment of the refusal that was noted, the last one since, how many since)}``.
        self._refused: dict[str, tuple[int, Deed, int]] = {}
        self._tokens: frozenset[tuple[str, str]] = frozenset()
        #: The token file that is kept for a standby.
        self.token_file = TokenFile(0, b"")

    def restore(self, stored: Mapping[Key, bytes]) -> None:
        """Restore which tokens were seen last."""
        self._tokens = frozenset(records.TOKENS.find(stored) or ())
        self.token_file = records.TOKEN_FILE.find(stored) or self.token_file

    def note(self, deed: Deed) -> None:
        """Note a deed; a refusal soon after another of the same principal is only counted."""
        if deed.what == "stop":
            for who in list(self._refused):
                self._settle(who)
        if deed.what != "refuse":
            self._noted.append((deed, 1))
            return
        first, _, count = self._refused.get(deed.who, (0, deed, 0))
        if deed.who in self._refused and deed.at - first < REFUSAL_SECONDS * 1e6:
            self._refused[deed.who] = (first, deed, count + 1)
        else:
            self._settle(deed.who)
            self._noted.append((deed, 1))
            self._refused[deed.who] = (deed.at, deed, 0)

    def note_all(self, deeds: Iterable[Deed]) -> list[Effect]:
        """Note deeds; their records are written with the transaction."""
        for deed in deeds:
            self.note(deed)
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
        """Note the refusals that have been counted for `REFUSAL_SECONDS`."""
        for who, (first, _, _) in list(self._refused.items()):
            if now * 1e6 - first >= REFUSAL_SECONDS * 1e6:
                self._settle(who)
        self._sums += self._budget.settle(round(now * 1e6))

    def see_tokens(self, seen: TokensSeen, now: float) -> list[Effect]:
        """Note which tokens came and went since the last look; return what to persist."""
        effects: list[Effect] = []
        if seen.file and seen.file != self.token_file.tokens:
            self.token_file = TokenFile(self.token_file.version + 1, seen.file)
            effects.append(records.TOKEN_FILE.put(value=self.token_file))
        if seen.tokens == self._tokens:
            return effects
        for kind, changed in (("token revoke", self._tokens - seen.tokens), ("token add", seen.tokens - self._tokens)):
            for name, _ in sorted(changed):
                self.note(Deed(round(now * 1e6), "operator", kind, name, address="file"))
        self._tokens = seen.tokens
        return [*effects, records.TOKENS.put(value=sorted(seen.tokens))]

    def take(self) -> list[Persist]:
        """Return the deeds noted since the last call, numbered, as changes to persist."""
        changes = []
        admitted = self._budget.admit(self._noted)
        for deed in admitted:
            if deed.what == "stop":  # counts would be lost with this process
                self._sums += self._budget.settle(deed.at, is_end=True)
        for deed in [*self._sums, *admitted]:
            self.number += 1
            kind = records.ACTIVITY if deed.what in ACTIVITY else records.AUDIT
            changes.append(kind.put(str(self.number), value=msgspec.msgpack.encode(deed)))
        self._noted.clear()
        self._sums.clear()
        return changes

    def _settle(self, who: str) -> None:
        _, last, count = self._refused.pop(who, (0, None, 0))
        if last is not None and count:
            detail = f"{count:,} more, the last: {last.detail}"
            self._noted.append((msgspec.structs.replace(last, detail=detail[:_LONGEST]), count))
