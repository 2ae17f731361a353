"""Compiles subscriptions from CQL2 text, CQL2-JSON or compiled objects under one schema.

Without a schema the literals of all sources give the types. The types of each source are learned alone and then
compared with those of the others, so that a `SchemaError` names both sources that disagree. A compiled subscription
shows its types by its constraints; a whole number may be a number or a timestamp, so it decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tamis.model.derived.formulas import formula_of, is_formula
from tamis.model.language.arithmetic.binding import learned_types
from tamis.model.language.bind import learn_from_node
from tamis.model.language.format import format_node
from tamis.model.language.nodes import Calculated, Node
from tamis.model.language.parse import parse
from tamis.model.schema import Schema
from tamis.model.subscription import (
    AllOf,
    AnyOf,
    Ball,
    Clock,
    Constraint,
    Cosine,
    Geometric,
    Like,
    Predicate,
    Some,
    Spatial,
    Subscription,
    SubscriptionId,
)
from tamis.model.types import AttributeType, Boolean, Many, Number, Region, ScalarType, String, Timestamp, Vector
from tamis.model.value_set import ValueSet

__all__ = ["Source", "as_subscription", "as_subscriptions"]

#: The forms in which callers pass a subscription.
Source = str | Mapping[str, Any] | Subscription


def as_subscription(source: Source, schema: Schema | None = None, *, id: SubscriptionId = 0) -> Subscription:
    """Compile text or CQL2-JSON; return a `Subscription` as it is, with its own id.

    >>> as_subscription("price < 100", id="alice").id
    'alice'
    """
    [subscription], _ = as_subscriptions([(id, source)], schema)
    return subscription


def as_subscriptions(
    sources: Iterable[tuple[SubscriptionId, Source]], schema: Schema | None = None
) -> tuple[list[Subscription], Schema]:
    """Compile sources under one schema, given or learned; return them and the schema.

    >>> as_subscriptions([("a", "x < 1"), ("b", "x = 'one'")])
    Traceback (most recent call last):
    tamis.errors.SchemaError: attribute 'x': known as a number, but subscription 'b' uses it as a string
    """
    read: list[tuple[SubscriptionId, Source, Node | None]] = [
        (id, source, None if isinstance(source, Subscription) else parse(source)) for id, source in sources
    ]
    open = schema is None
    used_schema = _learned(read) if schema is None else schema
    return [_compiled(id, source, node, used_schema, open) for id, source, node in read], used_schema


def _compiled(id: SubscriptionId, source: Source, node: Node | None, schema: Schema, open: bool) -> Subscription:
    if isinstance(source, Subscription) or node is None:
        assert isinstance(source, Subscription)
        return source
    from tamis.algebra.compiling import (
        compile_filters,
    )  # imported late: it simplifies by proofs, which import this module

    text = source if isinstance(source, str) else format_node(node)
    return Subscription(id, compile_filters(node, schema, text, open=open), text)


def _learned(read: Iterable[tuple[SubscriptionId, Source, Node | None]]) -> Schema:
    schema = Schema()
    uncertain: list[tuple[SubscriptionId, str]] = []
    for id, source, node in read:
        name_in_errors = f"subscription {id!r}"
        if node is not None:
            schema = schema.extended(learn_from_node(Schema(), node), name_in_errors)
            continue
        assert isinstance(source, Subscription)
        for constraint in _constraints(source):
            kind = _shown_type(constraint)
            if is_formula(constraint.attribute):
                shown = Calculated("NULL", (formula_of(constraint.attribute).expression,))
                schema = schema.extended(learned_types(shown, schema), name_in_errors)
            elif isinstance(kind, AttributeType):
                schema = schema.extended({constraint.attribute: kind}, name_in_errors)
            elif kind is not None:
                uncertain.append((id, constraint.attribute))
    for id, name in uncertain:
        seen_type = schema.get(name)
        if seen_type is not None and not isinstance(seen_type, Number | Timestamp):
            schema.extended({name: Number()}, f"subscription {id!r}")  # raises, naming both
    return schema


def _constraints(subscription: Subscription) -> Iterator[Constraint | Some]:
    waiting: list[Predicate] = []
    for filter in subscription.filters:
        waiting += filter.constraints if filter.rest is None else (*filter.constraints, filter.rest)
    while waiting:
        node = waiting.pop()
        if isinstance(node, AllOf | AnyOf):
            waiting += node.parts
        elif isinstance(node, Some):
            yield node
        else:
            yield node


def _shown_type(constraint: Constraint | Some) -> AttributeType | str | None:
    """Return the type that a constraint implies; None if it implies none, a string if two types are possible."""
    if isinstance(constraint, Some):
        inner = constraint.condition
        element = None if isinstance(inner, AllOf | AnyOf) else _shown_type(inner)
        return Many(element) if isinstance(element, ScalarType) else None
    if isinstance(constraint, Like):
        return String()
    if isinstance(constraint, Spatial):
        return Region()
    if isinstance(constraint, Geometric):
        return Region(geodetic=constraint.on_sphere)
    if isinstance(constraint, Clock):
        return Timestamp()
    if isinstance(constraint, Cosine):
        return Vector(len(constraint.direction))
    if isinstance(constraint, Ball):
        return Vector(len(constraint.center))
    return _type_of_cuts(constraint.allowed)


def _type_of_cuts(allowed: ValueSet) -> AttributeType | str | None:
    if not allowed.cuts:
        return None
    first = allowed.cuts[0][0]
    if isinstance(first, bool):
        return Boolean()
    if isinstance(first, str):
        return String()
    whole = all(isinstance(value, int) and side == 0 for value, side in allowed.cuts)
    return "number or timestamp" if whole else Number()
