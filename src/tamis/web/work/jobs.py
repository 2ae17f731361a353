"""The jobs of a worker process. Arguments are JSON text and byte strings, the result is a JSON value.

Only `tamis.web.work.worker` imports this module: a broker does not load the modules that only its workers need.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from tamis.algebra.evaluate import matches
from tamis.algebra.explain import explain
from tamis.model.schema import Schema
from tamis.node.content import Content
from tamis.web.views import compile_filter, join_policies

__all__ = ["JOBS"]

Job = Callable[[str, Sequence[bytes]], object]


def _content(arguments: dict[str, Any]) -> Content:
    """Return the content of the broker that asks: its schema, and whether it learns types."""
    content = Content(Schema.from_json(arguments["schema"]))
    content.learns = arguments["learns"]
    return content


def try_filter(text: str, payloads: Sequence[bytes]) -> list[list[int]]:
    """Return the indices of the events that the policies show, and of those among them that a filter matches."""
    arguments = json.loads(text)
    content, policies = _content(arguments), arguments["policies"]
    source = join_policies(arguments["filter"], policies)
    filters = compile_filter(content, source, [*policies, source] if arguments.get("learn") else policies)
    policy_filters = [compile_filter(content, policy, policies) for policy in policies]
    shown, matched = [], []
    for index, payload in enumerate(payloads):
        event = content.read_event(payload)
        if all(any(matches(event, filter) for filter in policy) for policy in policy_filters):
            shown.append(index)
            if any(matches(event, filter) for filter in filters):
                matched.append(index)
    return [shown, matched]


def explain_event(text: str, _: Sequence[bytes]) -> object:
    """Explain an event against a filter."""
    arguments = json.loads(text)
    schema, raw = Schema.from_json(arguments["schema"]), arguments["event"]
    return explain(schema.event(raw), raw, arguments["filter"], schema, arguments["name"]).as_json()


def compare_policies(text: str, blobs: Sequence[bytes]) -> object:
    """Return what each policy costs; ``blobs`` are the filters of the subscriptions, then the events."""
    from tamis.web.work.comparing import compared  # the simulator is imported at the first call

    arguments = json.loads(text)
    count = len(arguments["subscriptions"])
    arguments["subscriptions"] = [
        (id, msgspec.json.decode(filter), namespace)
        for (id, namespace), filter in zip(arguments["subscriptions"], blobs[:count], strict=True)
    ]
    return compared(arguments, _content(arguments), blobs[count:])


JOBS: dict[str, Job] = {"try": try_filter, "explain": explain_event, "compare": compare_policies}
