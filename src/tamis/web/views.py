"""What one principal may see of a broker (promises S6, S8).

Reading needs the right to subscribe. Events are shown as a subscription would have got them: of the principal's
namespaces, and matching its policy and the tenant's. Names of clients are for their own principal and for admins.
"""

from __future__ import annotations

from typing import Any

from tamis.algebra.evaluate import matches
from tamis.model.language.bind import learn_from_node
from tamis.model.language.compiler import compile_node
from tamis.model.language.cql2_json import to_json
from tamis.model.language.parse import parse
from tamis.model.subscription import Filter
from tamis.node.effects import Link
from tamis.routing import messages as m
from tamis.routing.edge.link_names import client_of
from tamis.routing.edge.rights import Rights
from tamis.runtime.broker.view import BrokerView

__all__ = ["View"]


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
        policies = self._policies_of(event.namespace)
        if not policies:
            return True
        found = self._broker.read_event(event.payload)
        return all(any(matches(found, one) for one in policy) for policy in policies)

    def names(self, link: Link) -> bool:
        """Whether the principal may see the name of the client behind a link."""
        client = client_of(link)
        return client is None or self.rights.is_admin or client[0] == self.rights.principal

    def compile(self, source: str | dict[str, Any], namespace: str) -> tuple[Filter, ...]:
        """Return what a subscription with this filter would match here, without teaching the broker its types."""
        policies = self._broker.checks.policies_of(namespace, self.rights)
        if not policies:
            return self._compile(source, [])
        parts = [to_json(parse(one)) for one in (*policies, source)]
        return self._compile({"op": "and", "args": parts}, policies)

    def _policies_of(self, namespace: str) -> list[tuple[Filter, ...]]:
        if namespace not in self._policies:
            texts = self._broker.checks.policies_of(namespace, self.rights)
            self._policies[namespace] = [self._compile(one, texts) for one in texts]
        return self._policies[namespace]

    def _compile(self, source: str | dict[str, Any], policies: list[str]) -> tuple[Filter, ...]:
        """Compile a filter. A policy may name attributes that no event had yet: then no event matches it."""
        schema, learns = self._broker.schema, self._broker.learns
        for policy in policies if learns else ():
            schema = learn_from_node(schema, parse(policy))
        text = source if isinstance(source, str) else None
        return compile_node(parse(source), schema, text, open=learns)
