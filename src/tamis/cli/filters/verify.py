"""``tamis verify``: checks that the files of a saved engine are undamaged and safe to open."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tamis.cli.failures import NO
from tamis.cli.options import Json, KeyFile, examples

__all__ = ["EPILOG", "verify"]

EPILOG = examples("tamis verify saved/", "tamis verify saved/ --json", "tamis verify saved/ --key-file snapshots.key")


def verify(
    location: Annotated[str, typer.Argument(metavar="LOCATION", help="Where an engine was saved: a directory or URI.")],
    json: Json = False,
    key_file: KeyFile = None,
) -> None:
    """Check every file of every version of a saved engine. Exit code 0: no problem, 1: a file is damaged.

    Checksums prove that no file was damaged since it was written. The check of structure proves that no number in a
    file points outside its array, so the version is safe to open even if its author is unknown. A signature, with
    --key-file, proves that the version was written by an owner of the key and not changed since. Nothing proves that
    the filters are the ones you want. Nothing is changed; a bad version is named with its file and what is wrong.
    """
    from tamis.cli.screen import output, write_json

    versions = _check(location, key_file)
    if json:
        write_json(versions)
    else:
        console = output()
        for version in versions:
            console.say(f"{version['version']}: {version['problem'] or 'sound'}", "" if version["sound"] else "bold")
            for proof in _proofs(version):
                console.say(f"  {proof}")
    raise typer.Exit(0 if all(version["sound"] for version in versions) else NO)


def _proofs(version: dict[str, Any]) -> list[str]:
    """Return sentences about a version: what is proved, and what is not."""
    proofs = []
    if version["checksums"]:
        proofs.append("checksums: no file was damaged since it was written; a forger could compute new ones")
    if version["structure"]:
        proofs.append("structure: every index lies within its array, so the version is safe to open")
    if version["signature"] == "signed with this key":
        proofs.append("signature: signed with this key, SHA-256 of every file included: an owner of the key wrote it")
    elif version["sound"]:
        proofs.append(f"signature: {version['signature']}: nothing shows who wrote it")
    return proofs


def _check(location: str, key_file: Path | None) -> list[dict[str, Any]]:
    from tamis.engine import snapshot
    from tamis.engine.snapshot.signing import read_key, snapshot_key

    key = snapshot_key(None if key_file is None else read_key(key_file))
    versions = snapshot.versions(location)
    if not versions:
        snapshot.newest(location)  # says what is missing
    return [_check_version(version, key) for version in versions]


def _check_version(version: Path | str, key: bytes | None) -> dict[str, Any]:
    """Return what is proved of a version, step by step; after a failed step the later ones are not tried."""
    from tamis.engine import snapshot
    from tamis.engine.engine import Engine
    from tamis.engine.snapshot.manifest import is_signed
    from tamis.errors import TamisError

    proved: dict[str, Any] = {"version": snapshot.name_of(version), "sound": False, "problem": None}
    proved |= {"checksums": False, "structure": False, "signature": "not checked"}
    try:
        local = snapshot.opened(version)
        saved = snapshot.read(local, key=key)
        unchecked = "the signature was not checked" if is_signed(local) else "not signed"
        proved |= {"checksums": True, "signature": "signed with this key" if key else unchecked}
        Engine.open(saved, snapshot.VersionLease(local))
        proved |= {"structure": True, "sound": True}
    except TamisError as error:
        proved["problem"] = str(error)
    return proved
