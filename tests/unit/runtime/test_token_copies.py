"""The file of tokens and its copy in a shared store: who follows whom."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tamis.routing.edge.audit import TokensSeen, Trail
from tamis.runtime.broker.tokens import Tokens


class Store:
    """The copy in the store, as the edge keeps it."""

    def __init__(self) -> None:
        self.trail = Trail()

    def keep(self, tokens: Tokens) -> None:
        """Do what a broker that serves does every two seconds."""
        file = tokens.as_json()
        self.trail.see_tokens(TokensSeen(frozenset(), file), 0.0)
        tokens.mark(self.trail.token_file.version, file)

    def take_over(self, tokens: Tokens) -> bool:
        return tokens.follow(*self.trail.token_file)


def names(tokens: Tokens) -> list[str]:
    return [token.name for token in tokens.all()]


def test_tokens_go_along_with_a_take_over(tmp_path: Path) -> None:
    store, a, b = Store(), Tokens(tmp_path / "a" / "tokens.json"), Tokens(tmp_path / "b" / "tokens.json")
    secret = a.add("alice")
    assert not store.take_over(a)  # the first broker of all has a file of its own
    store.keep(a)
    assert not store.take_over(b)
    assert (names(b), b.find(secret) is not None, b.path.stat().st_mode & 0o777) == (["alice"], True, 0o600)
    b.revoke("alice")
    b.add("bob")
    store.keep(b)
    assert not store.take_over(a)
    assert (names(a), a.find(secret)) == (["bob"], None)  # what was revoked does not come back


def test_a_change_while_no_broker_runs_counts(tmp_path: Path) -> None:
    store, a = Store(), Tokens(tmp_path / "tokens.json")
    a.add("alice")
    store.keep(a)
    a.add("carol")
    assert not store.take_over(a)
    assert names(a) == ["alice", "carol"]
    store.keep(a)
    assert store.trail.token_file.version == 2


def test_a_change_elsewhere_is_put_aside(tmp_path: Path) -> None:
    store, a, b = Store(), Tokens(tmp_path / "a" / "tokens.json"), Tokens(tmp_path / "b" / "tokens.json")
    a.add("alice")
    store.keep(a)
    store.take_over(b)
    b.add("mallory")  # on the machine that does not serve
    a.revoke("alice")
    store.keep(a)
    assert store.take_over(b)
    assert names(b) == []
    assert names(Tokens(tmp_path / "b" / "tokens.json.replaced")) == ["alice", "mallory"]
    assert not store.take_over(b)


def test_a_restored_copy_is_the_same(tmp_path: Path) -> None:
    store, a = Store(), Tokens(tmp_path / "tokens.json")
    a.add("alice")
    [change] = Trail().see_tokens(TokensSeen(frozenset(), a.as_json()), 0.0)
    store.trail.restore({change.key: change.value})
    assert (store.trail.token_file.version, store.trail.token_file.tokens) == (1, a.as_json())
    store.keep(a)
    assert store.trail.token_file.version == 1  # nothing changed, so nothing is written


def test_a_token_that_is_added_during_a_take_over_is_put_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, a, b = Store(), Tokens(tmp_path / "a" / "tokens.json"), Tokens(tmp_path / "b" / "tokens.json")
    a.add("alice")
    store.keep(a)
    store.take_over(b)
    a.revoke("alice")
    store.keep(a)
    locked = b._locked

    @contextlib.contextmanager
    def locked_late() -> Iterator[int]:
        Tokens(b.path).add("mallory")  # a command that had the lock until now
        with locked() as directory:
            yield directory

    monkeypatch.setattr(b, "_locked", locked_late)
    assert store.take_over(b)
    assert names(Tokens(tmp_path / "b" / "tokens.json.replaced")) == ["alice", "mallory"]
