"""Compiles text or CQL2-JSON to a subscription."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tamis.model.language.bind import bind, learn_from_node
from tamis.model.language.cql2_json import to_json
from tamis.model.language.nodes import Node
from tamis.model.language.normalise import normalise
from tamis.model.language.parse import parse
from tamis.model.schema import Schema
from tamis.model.subscription import DEFAULT_NAMESPACE, Filter, Subscription, SubscriptionId

__all__ = ["compile_node", "compile_text", "source_text"]


def compile_text(
    source: str | Mapping[str, Any],
    schema: Schema | None = None,
    *,
    id: SubscriptionId = 0,
    namespace: str = DEFAULT_NAMESPACE,
    expires: int | None = None,
    metadata: Mapping[str, str] | None = None,
) -> Subscription:
    """Compile a subscription from CQL2 text or JSON; without a schema its literals give the types.

    >>> compile_text("price < 100 OR price >= 100").filters == compile_text("price IS NOT NULL").filters
    True
    """
    node = parse(source)
    text = source_text(source, node)
    if schema is None:
        filters = compile_node(node, learn_from_node(Schema(), node), text, open=True)
    else:
        filters = compile_node(node, schema, text)
    return Subscription(id, filters, text, namespace, expires, dict(metadata or {}))


def source_text(source: str | Mapping[str, Any], node: Node) -> str:
    """Return the source of a subscription: its text, or its JSON as text.

    JSON is not turned into CQL2 text, which may be longer than the language accepts.
    """
    return source if isinstance(source, str) else msgspec.json.encode(to_json(node)).decode()


def compile_node(node: Node, schema: Schema, text: str | None = None, *, open: bool = False) -> tuple[Filter, ...]:
    """Return the filters a tree means under a schema; ``open`` as in `bind`."""
    return normalise(bind(node, schema, text, open=open))
