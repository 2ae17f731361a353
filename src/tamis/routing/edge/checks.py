"""Checks and compiles the requests of clients: events to payloads, filters to CQL2-JSON.

A check changes nothing except the learned types of one namespace, and those only within `tentatively`: a refused
request teaches nothing. Any exception of a check is the fault of the request that was checked.

Compiling a long filter takes up to 400 ms. `draft` compiles filters in advance, one after the other, a long one in
another thread (`checks_apart`), so that the step that takes the subscriptions need not compile.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from tamis.algebra.evaluate import matches
from tamis.errors import LimitError, ModelError, RefusedError
from tamis.model.language.cql2_json import to_json
from tamis.model.language.parse import parse
from tamis.model.schema import LEARNED_ATTRIBUTES, MAX_ATTRIBUTES, Schema
from tamis.model.strict_json import count_keys
from tamis.model.subscription import DEFAULT_NAMESPACE, Filter
from tamis.model.types import Form
from tamis.node import records
from tamis.node.content import Content, adopt, copy_apart, text_of, written_forms
from tamis.node.effects import Key, Link, Persist
from tamis.routing import messages as m
from tamis.routing.consumers.fields import check_fields
from tamis.routing.edge.admission import (
    MAX_ABOUT,
    MAX_EVENT,
    MAX_EVENT_WITH_REGION,
    check_dead_letters,
    check_metadata,
    check_namespace,
    read_raw,
    subscription_id,
)
from tamis.routing.edge.limits import MAX_DELIVERIES, MAX_METADATA_KEYS
from tamis.routing.edge.requests import Draft, EventDraft, MessageDraft
from tamis.routing.edge.rights import Rights

__all__ = [
    "Checks",
    "Drafts",
    "Meaning",
    "adopt_from",
    "checks_apart",
    "draft_many",
    "holds",
    "prepare",
    "prepare_event",
]

#: Namespaces for which the last admitted principal is remembered; and policies that are kept compiled.
MAX_GATES, MAX_COMPILED = 1_024, 1_024

#: Drafts of one subscription each, or why it is refused, by message and rights.
Drafts = dict[tuple[m.Subscribe, Rights], Draft | Exception]

#: The compiled filters of a subscription.
Meaning = tuple[Filter, ...]

#: Returns the full link that an event would take, and the reason for the refusal; None: the event can be accepted.
FindRefusal = Callable[[str, bytes], tuple[Link, str] | None]

#: Characters of a filter's text that are kept for display.
_LONGEST_TEXT = 4_096


class Checks:
    """Rights, limits and policies of one broker; ``policies`` are those of namespaces, as CQL2 text."""

    def __init__(
        self,
        content: Content,
        policies: Mapping[str, str] | None = None,
        find_refusal: FindRefusal = lambda namespace, payload: None,
    ) -> None:
        self.content = content
        self.find_refusal = find_refusal
        #: The namespaces whose types may have changed, with the schemas that were last persisted.
        self._before: dict[str, Schema] = {}
        self._policies = dict(policies or {})
        #: ``{namespace: (rights that were admitted last, policies that apply to them)}``.
        self._gates: dict[str, tuple[Rights, list[str]]] = {}
        self._compiled: dict[tuple[str, str], tuple[Filter, ...]] = {}
        self._prepared: Drafts = {}
        self._message: MessageDraft | None = None

    def restore(self, stored: Mapping[Key, bytes]) -> None:
        """Restore the types that an earlier life learned."""
        if not self.content.learns:
            return
        shared = records.SCHEMA.find(stored)
        if shared is not None:  # an earlier version learned for all namespaces together
            messages = (m.decode(value, source) for (source, _), value in records.INTEREST.items(stored))
            for namespace in {
                DEFAULT_NAMESPACE,
                *(message.namespace for message in messages if isinstance(message, m.Subscribe)),
            }:
                self.teach(Schema.from_json(shared), [namespace])
        for (namespace,), learned in records.TYPES.items(stored):
            self.content.of(namespace).schema = Schema.from_json(learned)

    def teach(self, schema: Schema, namespaces: Iterable[str]) -> None:
        """Give the types of ``schema`` to those namespaces that have learned nothing yet."""
        for namespace in namespaces if self.content.learns else ():
            if not self._space(namespace).schema:
                self._space(namespace).schema = schema

    def types_of(self, namespace: str) -> list[m.Types]:
        """Return the types of a namespace as they are sent to clients; "" stands for the configured schema."""
        schema = self.content.spaces[namespace].schema if namespace in self.content.spaces else None
        if not self.content.learns and not namespace:
            schema = self.content.schema
        return [m.Types(schema.to_json().encode(), namespace)] if schema else []

    def forget_types(self, namespace: str, kept: Iterable[str]) -> None:
        """Forget the learned types of a namespace except those in ``kept``, on which its subscriptions depend."""
        self._space(namespace).forget_types(frozenset(kept))
        self._compiled.clear()

    def take_learned(self) -> dict[str, Persist]:
        """Return what to persist of the namespaces that have learned or forgotten types since the last call."""
        saved_schemas, self._before = self._before, {}
        changed = {name: self.content.of(name).schema for name in saved_schemas}
        return {
            name: records.TYPES.put(name, value=schema.to_json().encode())
            for name, schema in changed.items()
            if schema is not saved_schemas[name]
        }

    @contextlib.contextmanager
    def tentatively(self, namespace: str) -> Iterator[None]:
        """Forget what the namespace learns in this context if an exception leaves it."""
        content = self._space(namespace)
        schema = content.schema
        try:
            yield
        except BaseException:
            content.schema = schema
            raise

    def policies_of(self, namespace: str, rights: Rights) -> list[str]:
        """Return the policies that apply to a principal in a namespace: the tenant's and its own, as CQL2 text."""
        return [policy for policy in (self._policies.get(namespace), rights.policy) if policy]

    def event(self, raw: Mapping[str, Any], namespace: str, rights: Rights) -> bytes:
        """Return the payload of an event that may be published; otherwise raise a `TamisError` with the reason."""
        policies = self._gate(namespace, rights)
        if len(raw) > MAX_ATTRIBUTES:
            raise LimitError("attributes of an event", len(raw), MAX_ATTRIBUTES)
        content = self._space(namespace)
        payload = content.write_event(raw)
        if len(payload) > MAX_EVENT:
            kinds = [content.schema.get(name) for name in raw]
            has_region = any(kind is not None and kind.form is Form.REGION for kind in kinds)
            limit = MAX_EVENT_WITH_REGION if has_region else MAX_EVENT
            if len(payload) > limit:
                raise LimitError("bytes of an event", len(payload), limit)
        for policy in policies:
            event = content.read_event(payload)
            if not any(matches(event, filter) for filter in self._policy(namespace, policy)):
                raise RefusedError(403, f"the policy of {rights.principal!r} does not allow this event")
        return payload

    def subscription(
        self, message: m.Subscribe, rights: Rights, meaning: tuple[Filter, ...] | None = None
    ) -> m.Subscribe:
        """Return a subscription in the form that the broker stores: compiled, and joined to the policies.

        ``meaning`` are its filters, if they were compiled under this schema already.
        """
        rights.demand("subscribe", check_namespace(message.namespace))
        content, policies = self._space(message.namespace), self.policies_of(message.namespace, rights)
        if policies:
            parts = [*(to_json(parse(policy)) for policy in policies), msgspec.json.decode(message.filter)]
            message = msgspec.structs.replace(message, filter=msgspec.json.encode({"op": "and", "args": parts}))
        if meaning is None or policies:
            written = content.written_form(message.filter)
        else:
            written = content.write_filter(meaning)
        return _stored_form(message, written, rights, content)

    def drafted_subscription(self, message: m.Subscribe, rights: Rights) -> m.Subscribe:
        """Return a WebSocket client's subscription in the form that the broker stores, from its draft if it has one."""
        prepared = self._prepared.get((message, rights)) if self._prepared else None
        if isinstance(prepared, Exception):
            raise prepared
        if prepared is not None and self.takes(prepared, message.namespace):
            return prepared.checked[0]
        return self.subscription(_described(message, self._space(check_namespace(message.namespace))), rights)

    def takes(self, draft: Draft | EventDraft, namespace: str) -> bool:
        """Whether a draft is still valid in a namespace; if so, the namespace learns the types of the draft.

        Types that were learned meanwhile do not change a subscription, unless they contradict its own types
        (`SchemaError`). An event is checked again: a value that had no type may have one now.
        """
        content = self._space(namespace)
        if draft.base is content.schema:
            content.schema = draft.learned
            return True
        if isinstance(draft, EventDraft) or any(content.schema.get(name) != draft.base[name] for name in draft.base):
            return False
        extended = content.schema.extended(draft.learned, "the subscription")
        if len(extended) > max(MAX_ATTRIBUTES, len(content.schema)):
            raise LimitError(LEARNED_ATTRIBUTES, len(extended), MAX_ATTRIBUTES)
        content.schema = extended
        return True

    def begin_events(self, namespace: str) -> EventDraft:
        """Return an empty draft of events under the current types of a namespace."""
        schema = self._space(namespace).schema
        return EventDraft(schema, schema)

    def draft_event(self, draft: EventDraft, raw: Mapping[str, Any], namespace: str, rights: Rights) -> None:
        """Check one more event of a draft; the broker learns nothing from it."""
        content = self._space(namespace)
        schema, content.schema = content.schema, draft.learned
        try:
            payload = self.event(raw, namespace, rights)
            draft.payloads.append(payload)
            draft.refusals.append(self.find_refusal(namespace, payload))
            draft.learned = content.schema
        finally:
            content.schema = schema

    def take_message(self, n: int) -> MessageDraft | None:
        """Return the draft of the current message of ``n`` events, if it has one, and learn its types."""
        draft = self._message
        if draft is None or len(draft.verdicts) != n or not holds(self, draft):
            return None
        for name, space in draft.spaces.items():
            self._space(name).schema = space.learned
        return draft

    def draft(self, earlier: Draft | None, message: m.Subscribe, rights: Rights) -> Draft:
        """Return a draft with one more checked subscription of its namespace; the broker learns nothing from it."""
        content = self._space(check_namespace(message.namespace))
        schema: Schema = content.schema
        draft = Draft(schema, schema) if earlier is None else earlier
        content.schema = draft.learned
        try:
            draft.checked.append(self.subscription(message, rights))
            draft.learned = content.schema
            return draft
        finally:
            content.schema = schema

    @contextlib.contextmanager
    def prepared(self, drafts: Drafts, message: MessageDraft | None = None) -> Iterator[None]:
        """Use drafts in this context: subscriptions are not compiled again, events of a message not checked again."""
        self._prepared, self._message = drafts, message
        try:
            yield
        finally:
            self._prepared, self._message = {}, None

    def _space(self, namespace: str) -> Content:
        """Return the content of a namespace, and note that its types may change."""
        content = self.content.of(namespace)
        if self.content.learns:
            self._before.setdefault(namespace, content.schema)
        return content

    def _policy(self, namespace: str, policy: str) -> tuple[Filter, ...]:
        filters = self._compiled.get((namespace, policy))
        if filters is None:
            if len(self._compiled) >= MAX_COMPILED:
                self._compiled.clear()
            filters = self._compiled[namespace, policy] = self.content.of(namespace).compile(policy)
        return filters

    def _gate(self, namespace: str, rights: Rights) -> list[str]:
        """Return the policies that apply to events of a namespace; raise unless the principal may publish there."""
        gate = self._gates.get(namespace)
        if gate is None or gate[0] is not rights:
            rights.demand("publish", check_namespace(namespace))
            if len(self._gates) >= MAX_GATES:
                self._gates.clear()
            gate = self._gates[namespace] = (rights, self.policies_of(namespace, rights))
        return gate[1]


def draft_many(
    checks: Checks,
    draft: Draft,
    namespace: str,
    requests: Sequence[tuple[m.Subscribe, Meaning | None]],
    rights: Rights,
) -> None:
    """Add subscriptions of a namespace to a draft, as `Checks.draft` does; those of usual shapes are checked together.

    Each comes with its filters, if they were compiled under this schema. If one raises, the draft has those before it.
    """
    rights.demand("subscribe", check_namespace(namespace))
    content = checks._space(namespace)
    schema, content.schema = content.schema, draft.learned
    try:
        is_plain = not checks.policies_of(namespace, rights)
        forms = written_forms(content, [message.filter for message, _ in requests]) if is_plain else {}
        for row, (message, meaning) in enumerate(requests):
            written = forms.get(row)
            if written is None:
                draft.checked.append(checks.subscription(message, rights, meaning))
            else:
                draft.checked.append(_stored_form(message, written, rights, content))
        draft.learned = content.schema
    finally:
        content.schema = schema


def _stored_form(message: m.Subscribe, written: bytes, rights: Rights, content: Content) -> m.Subscribe:
    """Return a subscription in the form that the broker stores, with its written filter."""
    subscription_id(message.id)
    about = msgspec.structs.replace(_read_about(message), owner=rights.principal)
    if about.fields:
        check_fields(about.fields, content.schema, learns=content.learns)
    if about.max_deliveries < 0:
        raise ModelError(f"max_deliveries: expected a whole number from 0 to {MAX_DELIVERIES:,}")
    if about.max_deliveries > MAX_DELIVERIES:
        raise LimitError("max_deliveries", about.max_deliveries, MAX_DELIVERIES)
    return m.Subscribe(message.id, written, message.namespace, message.expires, msgspec.json.encode(about))


class _Metadata(msgspec.Struct):
    """The metadata in the description of a subscription, not parsed."""

    metadata: msgspec.Raw = msgspec.Raw(b"{}")


_metadata_decoder = msgspec.json.Decoder(_Metadata)


def _read_about(message: m.Subscribe) -> m.About:
    """Return the description of a subscription, whose bytes and keys are counted before it is parsed."""
    if len(message.about) > MAX_ABOUT:
        raise LimitError("bytes of what is said about a subscription", len(message.about), MAX_ABOUT)
    if message.about.count(b":") > MAX_METADATA_KEYS:  # some of them may be in strings
        metadata = _metadata_decoder.decode(message.about).metadata
        check_metadata(count_keys(bytes(metadata).decode()))
    return m.about(message)


def checks_apart(checks: Checks, namespace: str) -> Checks:
    """Return checks of one namespace for use in another thread; `adopt_from` takes over what they compile."""
    space = copy_apart(checks._space(check_namespace(namespace)))
    content = space
    if checks.content.learns:
        content = Content()
        content.spaces[namespace] = space
    return Checks(content, checks._policies)


def adopt_from(checks: Checks, apart: Checks, namespace: str) -> None:
    """Take over the filters that checks in another thread have compiled, to be read from their bytes later."""
    adopt(checks._space(namespace), apart.content.of(namespace))


def prepare(checks: Checks, message: m.Subscribe, rights: Rights) -> Draft | Exception:
    """Return the draft of a subscription for the step that will take it, or the error with which to refuse it."""
    try:
        space = checks._space(check_namespace(message.namespace))
        return checks.draft(None, _described(message, space), rights)
    except Exception as error:  # the step that takes the subscription reports it
        return error


def prepare_event(checks: Checks, draft: MessageDraft, event: m.Published, rights: Rights) -> None:
    """Check one more event of a client's message; the broker learns nothing from it."""
    try:
        space = draft.spaces.get(event.namespace)
        if space is None:
            space = draft.spaces[event.namespace] = checks.begin_events(check_namespace(event.namespace))
        checks.draft_event(space, read_raw(event.payload), event.namespace, rights)
        draft.verdicts.append((space.payloads.pop(), space.refusals.pop()))
    except Exception as error:  # the step that takes the event reports it
        draft.verdicts.append(error)


def holds(checks: Checks, draft: MessageDraft) -> bool:
    """Whether the types under which the events of a message were checked are unchanged."""
    return all(checks.content.of(name).schema is space.base for name, space in draft.spaces.items())


def _described(message: m.Subscribe, content: Content) -> m.Subscribe:
    """Return a subscription whose text is that of its filter, whatever text its client sent (promise S24)."""
    text = text_of(content, message.filter)
    shown = text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]} ..."
    about = msgspec.structs.replace(_read_about(message), text=shown)
    check_dead_letters(about)
    return msgspec.structs.replace(message, about=msgspec.json.encode(about))
