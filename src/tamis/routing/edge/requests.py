"""Requests of the process around a broker's edge. These messages never cross a wire.

Each is handled in one transaction. `Post` and `SubscribeFor` carry what a client wrote; the `Answer` has what was
accepted, or a `Rejection` with the first row that was not.
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
    """A link is connected; ``rights`` are those of its client, None for a broker.

    ``takes_parts`` is whether that broker takes tables in parts (`tamis.routing.table_parts`).
    """

    rights: Rights | None
    takes_parts: bool = False


@dataclass(frozen=True)
class Disconnect:
    """A link is no longer connected."""

    reason: str = ""


@dataclass(frozen=True)
class Departed:
    """A client has gone for good: its state can be deleted."""


@dataclass(frozen=True)
class ChangeLink:
    """An operator skips, resumes, adds or removes a link; ``detail`` is for the audit."""

    change: SkipLink | AddLink | RemoveLink
    by: Rights
    detail: str = ""

    def deed(self, now: float) -> Deed:
        """Return the record of the audit."""
        if isinstance(self.change, SkipLink):
            kind = "link skip" if self.change.is_skipped else "link resume"
        else:
            kind = "link add" if isinstance(self.change, AddLink) else "link remove"
        return deed(now, self.by, kind, subject=self.change.link, detail=self.detail)


@dataclass(frozen=True)
class LearnTypes:
    """The types of a snapshot, for those of its namespaces that have learned none yet."""

    schema: Schema
    namespaces: tuple[str, ...]


@dataclass(frozen=True)
class ForgetTypes:
    """Asks to forget the learned types of a namespace, except those that its subscriptions use."""

    namespace: str
    by: Rights


@dataclass(frozen=True)
class FindProducer:
    """Asks for the last accepted number of a producer; the answer is None if there is none."""

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
    #: For each event the full link that it would take and the reason for the refusal; None: it can be accepted.
    refusals: list[tuple[Link, str] | None] = field(default_factory=list)


@dataclass
class MessageDraft:
    """The events of one message of a client, checked one by one in advance, each for itself."""

    #: The types before and after, by namespace.
    spaces: dict[str, EventDraft] = field(default_factory=dict)
    #: The payload of each event with the full link that refuses it, if any; or the error of its check.
    verdicts: list[tuple[bytes, tuple[Link, str] | None] | Exception] = field(default_factory=list)


class StaleDraftError(RefusedError):
    """The types of a namespace changed while many events were checked: the events must be checked again."""

    def __init__(self, namespace: str) -> None:
        super().__init__(503, f"the types of namespace {namespace!r} changed meanwhile; send the events again")


@dataclass(frozen=True)
class Post:
    """Events of one request, as the client wrote them: all of them are accepted, or none.

    They get the ids ``publisher``, ``epoch``, ``first``, ``first + 1`` and so on. With a ``producer`` the epoch is the
    number of the producer's batch, and a batch whose number was accepted before is not published again. With ``after``
    the batch is accepted only if that is the last accepted number of the producer, or if there is none.
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
    """Requests that arrived together, to be matched as one batch; the answer has a verdict for each."""

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
    """Subscriptions of clients that this process acts for: all of them are accepted, or none.

    ``drafts`` by namespace save checking them again. With ``must_be_new`` an id that exists is rejected, with
    ``must_exist`` an id that does not.
    """

    requests: tuple[tuple[Link, m.Subscribe], ...]
    by: Rights
    must_be_new: bool = False
    drafts: Mapping[str, Draft] = field(default_factory=dict)
    must_exist: bool = False


@dataclass(frozen=True)
class UnsubscribeFor:
    """Ends a subscription of the sender; ``by`` are the rights of the principal, None for the broker itself."""

    message: m.Unsubscribe
    by: Rights | None = None
