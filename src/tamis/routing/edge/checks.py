"""Whether what a client wrote may be accepted, and what it means: events as payloads, filters as CQL2-JSON.

Checking changes nothing but what it teaches about types, and that only within `tentatively`: a request that is refused
teaches nothing. Any exception of a check is the fault of the request that was checked.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from tamis.algebra.evaluate import matches
from tamis.errors import LimitError, RefusedError
from tamis.model.language.cql2_json import to_json
from tamis.model.language.format import format_node
from tamis.model.language.parse import parse
from tamis.model.schema import MAX_ATTRIBUTES, Schema
from tamis.model.subscription import Filter
from tamis.model.types import Region
from tamis.node import records
from tamis.node.content import Content
from tamis.node.effects import Key, Persist
from tamis.routing import messages as m
from tamis.routing.edge.admission import (
    MAX_ABOUT,
    MAX_EVENT,
    MAX_EVENT_WITH_REGION,
    check_namespace,
    subscription_id,
)
from tamis.routing.edge.requests import Draft, EventDraft
from tamis.routing.edge.rights import Rights

__all__ = ["Checks"]

#: Namespaces for which the last principal that was let in is remembered.
MAX_GATES = 1_024

#: Characters of a filter's text that are kept for people.
_LONGEST_TEXT = 4_096


class Checks:
    """Rights, limits and policies of one broker; ``policies`` are those of namespaces, as CQL2 text."""

    def __init__(self, content: Content, policies: Mapping[str, str] | None = None) -> None:
        self.content = content
        #: The schema that was last persisted.
        self._kept = content.schema
        self._policies = dict(policies or {})
        #: ``{namespace: (rights that were let in last, policies that hold for them)}``.
        self._gates: dict[str, tuple[Rights, list[str]]] = {}
        self._compiled: dict[str, tuple[Filter, ...]] = {}

    def restore(self, stored: Mapping[Key, bytes]) -> None:
        """Take back the types that an earlier life learned."""
        learned = records.SCHEMA.find(stored)
        if self.content.learns and learned is not None:
            self.content.schema = self._kept = Schema.from_json(learned)

    def take_learned(self) -> list[Persist]:
        """Return what to persist when types were learned since the last call."""
        if not self.content.learns or self.content.schema is self._kept:
            return []
        self._kept = self.content.schema
        return [records.SCHEMA.put(value=self._kept.to_json().encode())]

    @contextlib.contextmanager
    def tentatively(self) -> Iterator[None]:
        """Within this, what is learned is forgotten again when an exception leaves."""
        schema = self.content.schema
        try:
            yield
        except BaseException:
            self.content.schema = schema
            raise

    def policies_of(self, namespace: str, rights: Rights) -> list[str]:
        """Return the policies that hold for a principal in a namespace: the tenant's and its own, as CQL2 text."""
        return [policy for policy in (self._policies.get(namespace), rights.policy) if policy]

    def event(self, raw: Mapping[str, Any], namespace: str, rights: Rights) -> bytes:
        """Return the payload of an event that may be published; raises a `TamisError` that says why it may not."""
        policies = self._gate(namespace, rights)
        if len(raw) > MAX_ATTRIBUTES:
            raise LimitError("attributes of an event", len(raw), MAX_ATTRIBUTES)
        payload = self.content.write_event(raw)
        if len(payload) > MAX_EVENT:
            has_region = any(isinstance(self.content.schema.get(name), Region) for name in raw)
            limit = MAX_EVENT_WITH_REGION if has_region else MAX_EVENT
            if len(payload) > limit:
                raise LimitError("bytes of an event", len(payload), limit)
        for policy in policies:
            event = self.content.read_event(payload)
            if policy not in self._compiled:
                self._compiled[policy] = self.content.compile(policy)
            if not any(matches(event, filter) for filter in self._compiled[policy]):
                raise RefusedError(403, f"the policy of {rights.principal!r} does not allow this event")
        return payload

    def subscription(
        self, message: m.Subscribe, rights: Rights, meaning: tuple[Filter, ...] | None = None
    ) -> m.Subscribe:
        """Return a subscription as the broker takes it: compiled, and joined to the policies.

        ``meaning`` is what its filter was compiled to under this schema already, if it was.
        """
        rights.demand("subscribe", check_namespace(message.namespace))
        subscription_id(message.id)
        if len(message.about) > MAX_ABOUT:
            raise LimitError("bytes of what is said about a subscription", len(message.about), MAX_ABOUT)
        policies = self.policies_of(message.namespace, rights)
        if policies:
            parts = [*(to_json(parse(policy)) for policy in policies), msgspec.json.decode(message.filter)]
            message = msgspec.structs.replace(message, filter=msgspec.json.encode({"op": "and", "args": parts}))
        if meaning is None or policies:
            meaning = self.content.compile_json(message.filter)
        about = msgspec.structs.replace(m.about(message), owner=rights.principal)
        return msgspec.structs.replace(
            message, filter=self.content.write_filter(meaning), about=msgspec.json.encode(about)
        )

    def described(self, message: m.Subscribe) -> m.Subscribe:
        """Return a subscription whose text is what its filter says, whatever its client calls it (promise S24)."""
        text = format_node(parse(msgspec.json.decode(message.filter)))
        shown = text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]} ..."
        about = msgspec.structs.replace(m.about(message), text=shown)
        return msgspec.structs.replace(message, about=msgspec.json.encode(about))

    def begin_events(self) -> EventDraft:
        """Return a draft without events under the types of now."""
        return EventDraft(self.content.schema, self.content.schema)

    def draft_event(self, draft: EventDraft, raw: Mapping[str, Any], namespace: str, rights: Rights) -> None:
        """Check one more event of a draft; the broker learns nothing from it."""
        schema = self.content.schema
        self.content.schema = draft.learned
        try:
            draft.payloads.append(self.event(raw, namespace, rights))
            draft.learned = self.content.schema
        finally:
            self.content.schema = schema

    def draft(self, before: Draft | None, message: m.Subscribe, rights: Rights) -> Draft:
        """Return a draft with one more checked subscription; the broker learns nothing from it."""
        schema: Schema = self.content.schema
        draft = Draft(schema, schema) if before is None else before
        self.content.schema = draft.learned
        try:
            checked = self.subscription(message, rights)
            return Draft(draft.base, self.content.schema, (*draft.checked, checked))
        finally:
            self.content.schema = schema

    def _gate(self, namespace: str, rights: Rights) -> list[str]:
        """Return the policies that hold for events of a namespace; raises unless the principal may publish there."""
        known = self._gates.get(namespace)
        if known is None or known[0] is not rights:
            rights.demand("publish", check_namespace(namespace))
            if len(self._gates) >= MAX_GATES:
                self._gates.clear()
            known = self._gates[namespace] = (rights, self.policies_of(namespace, rights))
        return known[1]
