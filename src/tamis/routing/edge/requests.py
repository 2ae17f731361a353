"""What the process around a broker's edge asks of it. These messages never cross a wire.

Each is handled in one transaction. `Post` and `SubscribeFor` carry what a client wrote; they are answered (`Answer`)
with what was accepted, or with a `Rejection` that names the first row that was not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tamis.errors import RefusedError
from tamis.model.schema import Schema
from tamis.node.effects import Link
from tamis.routing import messages as m
from tamis.routing.core.link_gaps import AddLink, RemoveLink, SkipLink
from tamis.routing.edge.audit import Deed, deed
from tamis.routing.edge.rights import Rights

__all__ = [
    "Accepted",
    "ChangeLink",
    "Connect",
    "Departed",
    "Disconnect",
    "Draft",
    "EventDraft",
    "FindProducer",
    "ForgetTypes",
    "LearnTypes",
    "MessageDraft",
    "Post",
    "Posts",
    "Rejection",
    "StaleDraftError",
    "SubscribeFor",
    "UnsubscribeFor",
]


@dataclass(frozen=True)
class Connect:
    """A link has a connection from now on; ``rights`` are those of its client, None stands for a broker."""

    rights: Rights | None


@dataclass(frozen=True)
class Disconnect:
    """The connection of a link is gone."""

    reason: str = ""


@dataclass(frozen=True)
class Departed:
    """A client has gone for good: what is remembered of it can go, too."""


@dataclass(frozen=True)
class ChangeLink:
    """An operator has a link skipped, taken back, added or removed; ``detail`` is for the audit."""

    change: SkipLink | AddLink | RemoveLink
    by: Rights
    detail: str = ""

    def deed(self, now: float) -> Deed:
        """Return the record of the audit."""
        if isinstance(self.change, SkipLink):
            what = "link skip" if self.change.is_skipped else "link resume"
        else:
            what = "link add" if isinstance(self.change, AddLink) else "link remove"
        return deed(now, self.by, what, subject=self.change.link, detail=self.detail)


@dataclass(frozen=True)
class LearnTypes:
    """The types of a snapshot, for those of its namespaces that have learned none yet."""

    schema: Schema
    namespaces: tuple[str, ...]


@dataclass(frozen=True)
class ForgetTypes:
    """The learned types of a namespace are to be forgotten; those that its subscriptions name stay."""

    namespace: str
    by: Rights


@dataclass(frozen=True)
class FindProducer:
    """Asks for the last number that was taken of a producer; the answer is None when none was."""

    producer: str
    by: Rights

    @property
    def place(self) -> tuple[str, str]:
        """The principal and its producer."""
        return self.by.principal, self.producer


@dataclass
class EventDraft:
    """The payloads of events that were checked under the types of ``base``; they taught the types of ``learned``."""

    base: Schema
    learned: Schema
    payloads: list[bytes] = field(default_factory=list)
    #: The full link that each of them would take, and why that refuses it; None: it can be accepted.
    refusals: list[tuple[Link, str] | None] = field(default_factory=list)


@dataclass
class MessageDraft:
    """The events of one message of a client, checked one by one in advance, each for itself."""

    #: The types before and after, by namespace.
    spaces: dict[str, EventDraft] = field(default_factory=dict)
    #: The payload of each event with the full link that refuses it, if one does; or what is wrong with the event.
    verdicts: list[tuple[bytes, tuple[Link, str] | None] | Exception] = field(default_factory=list)


class StaleDraftError(RefusedError):
    """The types of a namespace changed while many events were checked under them: check them again."""

    def __init__(self, namespace: str) -> None:
        super().__init__(503, f"the types of namespace {namespace!r} changed meanwhile; send the events again")


@dataclass(frozen=True)
class Post:
    """Events of one request, as they were written: all of them are accepted, or none.

    They get the ids ``publisher``, ``epoch``, ``first``, ``first + 1`` and so on. With a ``producer`` the epoch is the
    number of the producer's batch, and a batch whose number was accepted before is not published again. With ``after``
    the batch is accepted only if that is the last number taken of the producer, or if none was.
    """

    events: tuple[Mapping[str, Any], ...]
    namespace: str
    by: Rights
    publisher: str
    epoch: int
    first: int = 1
    producer: str = ""
    after: int | None = None
    #: Saves checking the events again, unless the types have changed since.
    draft: EventDraft | None = None


@dataclass(frozen=True)
class Posts:
    """Requests that came at the same time, to be matched as one batch; the answer has a verdict for each."""

    calls: tuple[Post, ...]


@dataclass(frozen=True)
class Accepted:
    """The ids of the events of a `Post`, and whether they are new."""

    ids: tuple[m.EventId, ...]
    is_new: bool = True


@dataclass(frozen=True)
class Rejection:
    """The first row of a request that cannot be accepted, and why; None: the request as a whole."""

    row: int | None
    error: Exception


@dataclass
class Draft:
    """Subscriptions of a namespace, checked under the types of ``base``; they taught the types of ``learned``."""

    base: Schema
    learned: Schema
    checked: list[m.Subscribe] = field(default_factory=list)


@dataclass(frozen=True)
class SubscribeFor:
    """Subscriptions of clients that speak through this process: all of them are accepted, or none.

    ``drafts`` by namespace save checking them again. With ``must_be_new`` an id that is there already is rejected, with
    ``must_exist`` one that is not.
    """

    requests: tuple[tuple[Link, m.Subscribe], ...]
    by: Rights
    must_be_new: bool = False
    drafts: Mapping[str, Draft] = field(default_factory=dict)
    must_exist: bool = False


@dataclass(frozen=True)
class UnsubscribeFor:
    """The end of a subscription of the sender; ``by`` is who wants it, None the broker itself."""

    message: m.Unsubscribe
    by: Rights | None = None
