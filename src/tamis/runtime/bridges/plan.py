"""What a bridge does, and what it has done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tamis.errors import ModelError, TamisError
from tamis.model.language.parse import parse
from tamis.model.subscription import DEFAULT_NAMESPACE
from tamis.routing.edge.limits import MAX_NAME
from tamis.runtime.bridges.content import check_template
from tamis.runtime.bridges.dead_letters import check_dead_letters
from tamis.runtime.broker_addresses import BrokerAddresses

__all__ = ["BridgeCounts", "BridgePlan"]


@dataclass(frozen=True)
class BridgePlan:
    """What a bridge does; ``subscriptions`` are filters by id, and their matches go to the template ``out``."""

    #: Its address, or several: those of the broker and its standbys.
    broker: str | tuple[str, ...]
    name: str = "bridge"
    #: What is read of the other system: topics or subjects.
    sources: tuple[str, ...] = ()
    subscriptions: Mapping[str, str] = field(default_factory=dict)
    out: str = ""
    namespace: str = DEFAULT_NAMESPACE
    token: str | None = field(default=None, repr=False)
    #: Whether the token may be sent unencrypted to another machine.
    insecure: bool = False
    #: Where messages go that can never be handed over; None: they are counted only.
    dead_letters: Path | None = None

    @property
    def addresses(self) -> BrokerAddresses:
        """Where the broker is."""
        return BrokerAddresses(self.broker)

    def check(self) -> BridgePlan:
        """Return this plan; `ModelError` says what is missing or wrong."""
        if not self.sources and not self.subscriptions:
            raise ModelError("a bridge without --in and without --subscribe has nothing to do")
        if bool(self.subscriptions) != bool(self.out):
            raise ModelError("--subscribe and --out belong together: what goes out, and where it goes")
        if not self.name.isprintable() or not 0 < len(self.name) <= MAX_NAME // 2:
            raise ModelError(f"--name: expected 1 to {MAX_NAME // 2} printable characters, got {self.name[:80]!r}")
        check_template(self.out)
        for id, filter in self.subscriptions.items():
            try:
                parse(filter)
            except TamisError as error:
                raise ModelError(f"--subscribe, filter of {id!r}: {error}") from None
        if self.dead_letters is not None:
            check_dead_letters(self.dead_letters)
        return self


@dataclass
class BridgeCounts:
    """Messages that came in, became events, came again, were refused for good or for now; and deliveries that left."""

    received: int = 0
    published: int = 0
    repeated: int = 0
    refused: int = 0
    retried: int = 0
    sent: int = 0
    last_refusal: str = ""
