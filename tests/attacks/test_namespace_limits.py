"""Attack: very many or very long subscriptions, or very many namespaces, so that others find no room."""

from __future__ import annotations

import contextlib

import msgspec
import pytest

from tamis.errors import LimitError, RemoteProtocolError
from tamis.model.schema import Schema
from tamis.node.content import Content
from tamis.routing import messages as m
from tamis.routing import neighbour_checks
from tamis.routing.core.interest import Interest, Interests
from tamis.routing.core.routing_table import RoutingTable
from tamis.routing.edge import registry as registry_module
from tamis.routing.edge.registry import Registry
from tamis.routing.edge.requests import SubscribeFor
from tamis.routing.edge.rights import Rights
from tamis.routing.neighbour_checks import check_table
from tamis.routing.policies.policy import find_policy

LIMITS = {
    "MAX_SUBSCRIPTIONS_OF_NAMESPACE": 3,
    "MAX_BYTES_OF_NAMESPACE": 100,
    "MAX_BYTES_OF_SUBSCRIPTIONS": 150,
    "MAX_NAMESPACES": 3,
    "MAX_NAMESPACES_OF_PRINCIPAL": 2,
}


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


def owned(owner: str, id: str, namespace: str) -> tuple[str, m.Subscribe]:
    about = msgspec.json.encode(m.About(owner, "TRUE"))
    return f"s:{namespace}:{id}", m.Subscribe(id, b"", namespace, None, about)


def test_namespaces_of_a_principal(registry: Registry) -> None:
    for namespace in ("a", "b"):
        registry.add(*owned("eve", "x", namespace))
    assert reason(registry, owned("eve", "x", "c")) == (
        "namespaces with subscriptions of 'eve': 3 is more than the 2 accepted; "
        "end the subscriptions of a namespace that is no longer needed, or use one that exists"
    )
    assert not reason(registry, owned("eve", "y", "b"))
    assert not reason(registry, owned("eve", "x", "a"))  # it replaces one
    registry.add(*owned("eve", "y", "b"))
    registry.note("s:b:x", m.Status("x", "b", m.State.CANCELLED))
    assert "namespaces" in reason(registry, owned("eve", "x", "c"))
    registry.note("s:b:y", m.Status("y", "b", m.State.CANCELLED))
    assert not reason(registry, owned("eve", "x", "c"))
    assert "of 'eve': 3" in reason(registry, owned("eve", "x", "c"), owned("eve", "y", "c"), owned("eve", "x", "d"))


def test_namespaces_of_all(registry: Registry) -> None:
    for owner, namespace in (("bob", "a"), ("bob", "b"), ("alice", "c")):
        registry.add(*owned(owner, "x", namespace))
    assert reason(registry, owned("eve", "x", "d")).startswith(
        "namespaces with subscriptions: 4 is more than the 3 accepted; end the subscriptions"
    )
    assert not reason(registry, owned("eve", "y", "a"))
    registry.note("s:c:x", m.Status("x", "c", m.State.CANCELLED))
    assert not reason(registry, owned("eve", "x", "d"))


def test_an_owner_that_changes_gives_its_place_back(registry: Registry) -> None:
    for owner in ("alice", "bob"):
        registry.add(*owned(owner, "x", "a"))
    assert (registry.count_of("alice"), registry.count_of("bob")) == (0, 1)
    registry.note("s:a:x", m.Status("x", "a", m.State.CANCELLED))
    assert registry.count_of("bob") == 0


def test_empty_namespaces_leave_the_routing_table() -> None:
    table = RoutingTable({link: find_policy("covering") for link in ("near", "far")}, Schema())
    content = Content()
    for _ in range(3):
        for namespace in ("a", "b"):
            interest = Interest("k", b"true", namespace, content.of(namespace))
            table.put_many([(source, f"{source}{namespace}", interest) for source in ("c:eve:laptop", "near")])
        assert spaces_of(table) == {"a": 1, "b": 1}
        for namespace in ("a", "b"):
            for source in ("c:eve:laptop", "near"):
                table.drop(source, f"{source}{namespace}")
                table.check_invariants()
            assert namespace not in spaces_of(table)
        changes = [table.take_changes(link) for link in ("near", "far")]
        assert not any(change.announce or change.retract for change in changes)
        assert not any(table.summaries.values())


def test_a_neighbour_that_is_removed_takes_its_namespaces_along() -> None:
    table = RoutingTable({link: find_policy("covering") for link in ("near", "far")}, Schema())
    interest = Interest("k", b"true", "a", Content().of("a"))
    table.put_many([("near", "k", interest)])
    table.remove_neighbour("near")
    assert spaces_of(table) == {}


def spaces_of(table: RoutingTable) -> dict[str, int]:
    """Return the namespaces of a table, each with its number of neighbours."""
    return {name: len(space.links) for name, space in table._namespaces.items()}


def test_namespaces_of_a_neighbour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbour_checks, "MAX_NAMESPACES_OF_NEIGHBOUR", 2)
    held, content = Interests(), Content()
    for namespace in ("a", "b"):
        held.put(f"{namespace}1", Interest(f"{namespace}1", b"true", namespace, content.of(namespace)))
    check_table(m.Update(1, (m.Entry("b2", "b", b"true"),)), held, "near")
    check_table(m.Update(1, (m.Entry("c", "c", b"true"),), replace=True), held, "near")
    with pytest.raises(RemoteProtocolError, match="namespaces in all: 3 is more than the 2 accepted"):
        check_table(m.Update(1, (m.Entry("c", "c", b"true"),)), held, "near")
    held.take("a1")
    check_table(m.Update(1, (m.Entry("c", "c", b"true"),)), held, "near")
