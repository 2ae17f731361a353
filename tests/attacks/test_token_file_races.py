"""Attack: a token is revoked while another is added, or just before a power cut, and comes back.

Commands that change the token file take turns, so that none writes over what another did, and a change is flushed with
its directory.
"""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path

import pytest

from tamis.runtime.broker.tokens import Tokens

ROUNDS = 40


def add_many(path: Path, prefix: str) -> None:
    tokens = Tokens(path)
    for number in range(ROUNDS):
        tokens.add(f"{prefix}{number}")


def revoke_many(path: Path) -> None:
    tokens = Tokens(path)
    for number in range(ROUNDS):
        assert tokens.revoke(f"old{number}")


def test_a_revocation_beside_an_addition_is_not_lost(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    add_many(path, "old")
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=add_many, args=(path, prefix)) for prefix in "ab"]
    workers.append(context.Process(target=revoke_many, args=(path,)))
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    wanted = {f"{prefix}{number}" for prefix in "ab" for number in range(ROUNDS)}
    assert {token.name for token in Tokens(path).all()} == wanted
    assert [path.name for path in tmp_path.iterdir()] == ["tokens.json"]


def test_a_change_is_flushed_with_its_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this order: the new file, its name, the directory."""
    steps: list[str] = []
    flush, rename = os.fsync, os.replace

    def noted_flush(handle: int) -> None:
        steps.append("flush directory" if Path(f"/proc/self/fd/{handle}").resolve() == tmp_path else "flush file")
        flush(handle)

    def noted_rename(source: Path, target: Path) -> None:
        steps.append("rename")
        rename(source, target)

    monkeypatch.setattr(os, "fsync", noted_flush)
    monkeypatch.setattr(os, "replace", noted_rename)
    tokens = Tokens(tmp_path / "tokens.json")
    tokens.add("alice")
    assert tokens.revoke("alice")
    assert steps == ["flush file", "rename", "flush directory"] * 2
