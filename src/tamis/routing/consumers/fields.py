"""Deliveries that carry only some attributes of an event: the ``fields`` of a subscription."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tamis.errors import LimitError, ModelError, list_names, shorten
from tamis.model.schema import MAX_ATTRIBUTES, Schema
from tamis.model.subscription import SubscriptionId
from tamis.node.effects import Link
from tamis.routing import messages as m

__all__ = ["FieldLists", "check_fields", "keep_fields"]

_payload_decoder = msgspec.msgpack.Decoder(dict[str, msgspec.Raw])
_payload_encoder = msgspec.msgpack.Encoder()


def keep_fields(payload: bytes, fields: Iterable[str]) -> bytes:
    """Return a payload with some of its attributes, as they are written there.

    >>> msgspec.msgpack.decode(keep_fields(msgspec.msgpack.encode({"mag": 6, "place": "Alaska"}), ["mag", "depth"]))
    {'mag': 6}
    """
    names = frozenset(fields)
    values = _payload_decoder.decode(payload)
    return _payload_encoder.encode({name: value for name, value in values.items() if name in names})


def check_fields(fields: tuple[str, ...], schema: Schema, *, learns: bool) -> None:
    """Raise unless a subscription may name these fields; a configured schema must have them."""
    if len(fields) > MAX_ATTRIBUTES:
        raise LimitError("fields of a subscription", len(fields), MAX_ATTRIBUTES)
    if duplicates := sorted({name for name in fields if fields.count(name) > 1}):
        raise ModelError(f"fields: duplicate name {shorten(duplicates[0])}")
    schema_names = {*schema, *(name.split(".")[0] for name in schema)}
    unknown = [name for name in fields if not name or (not learns and name not in schema_names)]
    if unknown:
        raise ModelError(
            f"fields: there is no attribute {shorten(unknown[0])}; choose from {list_names(sorted(schema_names))}"
        )


class FieldLists:
    """The fields of all subscriptions that name some."""

    def __init__(self) -> None:
        self._fields: dict[Link, dict[tuple[str, SubscriptionId], tuple[str, ...]]] = {}

    def put(self, link: Link, message: m.Subscribe, fields: tuple[str, ...]) -> None:
        """Note the fields of a subscription; empty: all."""
        self.forget(link, message)
        if fields:
            self._fields.setdefault(link, {})[message.namespace, message.id] = fields

    def forget(self, link: Link, message: m.Subscribe) -> None:
        """Drop the fields of a subscription."""
        by_subscription = self._fields.get(link)
        if (
            by_subscription is not None
            and by_subscription.pop((message.namespace, message.id), None) is not None
            and not by_subscription
        ):
            del self._fields[link]

    def narrow(self, link: Link, delivery: m.Delivery) -> m.Delivery:
        """Return a delivery with the fields that its subscriptions name; whole if one of them names none."""
        by_subscription = self._fields.get(link)
        if by_subscription is None:
            return delivery
        event = delivery.event
        field_lists = [by_subscription.get((event.namespace, id)) for id in delivery.subscriptions]
        if None in field_lists:
            return delivery
        names = frozenset(name for fields in field_lists for name in fields or ())
        return m.Delivery(
            m.Published(event.id, event.namespace, keep_fields(event.payload, names)), delivery.subscriptions
        )
