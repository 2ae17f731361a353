"""Attack: one tenant, with many principals, makes very many or very long subscriptions, so that others find no room."""

from __future__ import annotations

import contextlib

import pytest

from tamis.errors import LimitError
from tamis.routing import messages as m
from tamis.routing.edge import registry as registry_module
from tamis.routing.edge.registry import Registry
from tamis.routing.edge.requests import SubscribeFor
from tamis.routing.edge.rights import Rights

LIMITS = {"MAX_SUBSCRIPTIONS_OF_NAMESPACE": 3, "MAX_BYTES_OF_NAMESPACE": 100, "MAX_BYTES_OF_SUBSCRIPTIONS": 150}


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Registry:
    for name, most in LIMITS.items():
        monkeypatch.setattr(registry_module, name, most)
    return Registry()


def asking(id: str, size: int, namespace: str) -> tuple[str, m.Subscribe]:
    return f"s:{namespace}:{id}", m.Subscribe(id, b"f" * size, namespace)


def reason(registry: Registry, *requests: tuple[str, m.Subscribe]) -> str:
    """Return why subscriptions are refused, whichever door they come through; then nothing was taken."""
    rejection = registry.find_rejection(SubscribeFor(requests, Rights("eve")))
    words = "" if rejection is None else str(rejection.error)
    if len(requests) == 1:
        with contextlib.nullcontext() if not words else pytest.raises(LimitError) as refused:
            registry.demand_room(Rights("eve"), *requests[0])
        assert refused is None or str(refused.value) == words
    return words


def test_pieces_of_a_namespace(registry: Registry) -> None:
    for id in "abc":
        registry.add(*asking(id, 1, "eve"))
    assert "subscriptions of namespace 'eve': 4 is more than the 3" in reason(registry, asking("d", 1, "eve"))
    assert not reason(registry, asking("a", 50, "eve"))  # it replaces one
    assert not reason(registry, asking("a", 1, "bob"))
    assert "'bob'" in reason(registry, *(asking(id, 1, "bob") for id in "abcd"))
    registry.note("s:eve:a", m.Status("a", "eve", m.State.CANCELLED))
    assert not reason(registry, asking("d", 1, "eve"))


def test_bytes_of_a_namespace_and_of_all(registry: Registry) -> None:
    registry.add(*asking("a", 90, "eve"))
    assert "bytes of subscriptions of namespace 'eve'" in reason(registry, asking("b", 11, "eve"))
    assert not reason(registry, asking("b", 60, "bob"))
    assert "bytes of subscriptions: 151 is more than the 150" in reason(registry, asking("b", 61, "bob"))
    registry.add(*asking("a", 20, "eve"))  # shorter than before
    assert not reason(registry, asking("b", 61, "bob"))
