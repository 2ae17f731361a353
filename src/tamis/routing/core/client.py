"""A client's mind: what it asked for, what it published, and each event it gets exactly once.

The wire delivers at least once, with a stable id. Events of one publisher come in order, so one cursor per publisher
tells what is new (promises G5, G7). A client whose broker lost its disk says everything again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tamis.errors import LocalProtocolError, RemoteProtocolError
from tamis.model.subscription import SubscriptionId
from tamis.node.core import LinkUp
from tamis.node.effects import Effect, Key, Link, Persist, Send
from tamis.node.story import Story
from tamis.routing import messages as m

__all__ = ["USER", "ClientCore"]

#: The sender of what the user of a client wants; everything else comes from the broker.
USER: Link = ""


class ClientCore:
    """One client, attached to ``broker``; the user's messages come from `USER`."""

    def __init__(self, name: str, broker: Link) -> None:
        self.name = name
        self.broker = broker
        #: ``{(namespace, id): subscribe}``: what was asked for and not cancelled.
        self._asked: dict[tuple[str, SubscriptionId], m.Subscribe] = {}
        #: How far each subscription has come.
        self.states: dict[tuple[str, SubscriptionId], m.State] = {}
        #: ``{(publisher, epoch): seq}``: the last event that was new.
        self._cursors: dict[tuple[str, int], int] = {}
        #: What was delivered, each event once, in order; and how often one came again.
        self.deliveries: list[m.Delivery] = []
        self.repeated = 0
        self.refusals: list[m.Refusal] = []
        self.story = Story()

    def handle(self, message: Any, *, sender: Link, now: float) -> list[Effect]:
        """Take a message of the user or of the broker."""
        self.story.note(now, sender, message)
        if sender == USER:
            return self._from_user(message)
        if isinstance(message, m.Delivery):
            return self._deliver(message)
        if isinstance(message, m.Status):
            if (message.namespace, message.id) in self._asked or message.state is m.State.CANCELLED:
                self.states[message.namespace, message.id] = message.state
        elif isinstance(message, m.Refusal):
            self.refusals.append(message)
        elif isinstance(message, LinkUp):
            return self._link_up(message)
        elif isinstance(message, m.Delayed):
            pass  # it becomes active some time, which is all that is waited for here
        else:
            raise RemoteProtocolError(sender, f"nobody sends a {type(message).__name__} to a client")
        return []

    def restore(self, stored: Mapping[Key, bytes], *, now: float) -> list[Effect]:
        """Take back cursors and subscriptions."""
        for key in sorted(stored):
            if key[0] == "cursor":
                self._cursors[key[1], int(key[2])] = int(stored[key])
            elif key[0] == "asked":
                message = m.decode(stored[key], self.broker)
                if isinstance(message, m.Subscribe):
                    self._asked[message.namespace, message.id] = message
                    self.states[message.namespace, message.id] = m.State.PENDING
        return []

    def check_invariants(self) -> None:
        """Nothing can be wrong between the parts of a client: it has no derived state."""

    def _from_user(self, message: m.Message) -> list[Effect]:
        if isinstance(message, m.Subscribe):
            place = (message.namespace, message.id)
            self._asked[place], self.states[place] = message, m.State.PENDING
            return [Persist(_asked_key(*place), m.encode(message)), Send(self.broker, message)]
        if isinstance(message, m.Unsubscribe):
            self._asked.pop((message.namespace, message.id), None)
            return [Persist(_asked_key(message.namespace, message.id), None), Send(self.broker, message)]
        if isinstance(message, m.Publish | m.PublishBatch):
            return [Send(self.broker, message)]
        raise LocalProtocolError(f"a client does not say {type(message).__name__}")

    def _deliver(self, message: m.Delivery) -> list[Effect]:
        id = message.event.id
        place = (id.publisher, id.epoch)
        if id.seq <= self._cursors.get(place, 0):
            self.repeated += 1
            return []
        self._cursors[place] = id.seq
        self.deliveries.append(message)
        return [Persist(("cursor", id.publisher, str(id.epoch)), b"%d" % id.seq)]

    def _link_up(self, message: LinkUp) -> list[Effect]:
        again = [one for one in message.unacknowledged if isinstance(one, m.Publish | m.PublishBatch)]
        for place in self.states:  # a broker that knows nothing has cancelled everything
            self.states[place] = m.State.PENDING if place in self._asked else m.State.CANCELLED
        return [Send(self.broker, one) for one in (*self._asked.values(), *again)]


def _asked_key(namespace: str, id: SubscriptionId) -> Key:
    return ("asked", namespace, msgspec.json.encode(id).decode())
