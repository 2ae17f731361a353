"""What one principal may see of a broker (promises S6, S8).

Reading needs the right to subscribe. Events are shown as a subscription would have got them: of the principal's
namespaces, and matching its policy and the tenant's. Names of clients are for their own principal and for admins.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from tamis.algebra.compiling import compile_filters
from tamis.algebra.evaluate import matches
from tamis.model.language.bind import learn_from_node
from tamis.model.language.cql2_json import to_json
from tamis.model.language.parse import parse
from tamis.model.subscription import Filter, SubscriptionId
from tamis.node.content import Content
from tamis.node.effects import Link
from tamis.routing import messages as m
from tamis.routing.edge.link_names import client_of
from tamis.routing.edge.rights import Rights
from tamis.runtime.broker.view import BrokerView

__all__ = ["View", "compile_filter", "join_policies", "shown_key"]


class View:
    """A broker as one principal sees it; `RefusedError` for a token that may only publish."""

    def __init__(self, broker: BrokerView, rights: Rights) -> None:
        rights.demand_reading()
        self.rights = rights
        self._broker = broker
        #: ``{namespace: policies}``, compiled for this request.
        self._policies: dict[str, list[tuple[Filter, ...]]] = {}

    def shows(self, event: m.Published) -> bool:
        """Whether the principal may see an event."""
        if not self.rights.sees(event.namespace):
            return False
        policies = self._compiled_policies(event.namespace)
        if not policies:
            return True
        values = self._broker.read_event(event)
        return all(any(matches(values, filter) for filter in policy) for policy in policies)

    def names(self, link: Link) -> bool:
        """Whether the principal may see the name of the client behind a link."""
        client = client_of(link)
        return client is None or self.rights.is_admin or client[0] == self.rights.principal

    def compile(self, source: str | dict[str, Any], namespace: str) -> tuple[Filter, ...]:
        """Return a filter compiled as that of a subscription would be, without teaching the broker its types."""
        policies = self.policies_of(namespace)
        return compile_filter(self._broker.checks.content.of(namespace), join_policies(source, policies), policies)

    def policies_of(self, namespace: str) -> list[str]:
        """Return the policies that hold for the principal in a namespace, as CQL2 text."""
        return self._broker.checks.policies_of(namespace, self.rights)

    def _compiled_policies(self, namespace: str) -> list[tuple[Filter, ...]]:
        if namespace not in self._policies:
            texts = self.policies_of(namespace)
            content = self._broker.checks.content.of(namespace)
            self._policies[namespace] = [compile_filter(content, text, texts) for text in texts]
        return self._policies[namespace]


def join_policies(source: str | dict[str, Any], policies: Sequence[str]) -> str | dict[str, Any]:
    """Return a filter joined to policies with AND; without policies the filter itself."""
    if not policies:
        return source
    return {"op": "and", "args": [to_json(parse(part)) for part in (*policies, source)]}


def compile_filter(
    content: Content, source: str | dict[str, Any], sources: Sequence[str | dict[str, Any]]
) -> tuple[Filter, ...]:
    """Return a compiled filter, without teaching ``content`` its types.

    A policy may name attributes that no event had yet: the types that the filters ``sources`` imply hold here, and no
    event matches.
    """
    schema = content.schema
    for learned in sources if content.learns else ():
        schema = learn_from_node(schema, parse(learned))
    text = source if isinstance(source, str) else None
    return compile_filters(parse(source), schema, text, open=content.learns)


def shown_key(key: str) -> str:
    """Return the id of a subscription, from the key that it has in a network.

    >>> shown_key('["c:alice:laptop","default","strong"]')
    'strong'
    """
    try:
        _, _, id = msgspec.json.decode(key, type=tuple[str, str, SubscriptionId])
    except msgspec.DecodeError:
        return key  # a merged entry has a name of its own
    return str(id)
