"""``tamis verify``: whether the files of a saved engine are what was written, and can be opened without harm."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tamis.cli.failures import NO
from tamis.cli.options import Json, KeyFile, examples

__all__ = ["EPILOG", "verify"]

EPILOG = examples("tamis verify saved/", "tamis verify saved/ --json", "tamis verify saved/ --key-file snapshots.key")


def verify(
    directory: Annotated[Path, typer.Argument(metavar="DIRECTORY", help="Where an engine was saved.")],
    json: Json = False,
    key_file: KeyFile = None,
) -> None:
    """Check every file of every version of a saved engine. Exit code 0: all sound, 1: something is wrong.

    Checksums prove that no file was damaged since it was written. The check of structure proves that no number in a
    file leads outside its array, so that the version can be opened without harm, whoever wrote it. A signature, with
    --key-file, proves that the version was written by an owner of the key and not changed since. Nothing proves that
    the filters are the ones you want. Nothing is changed; a bad version is named with its file and what is wrong.
    """
    from tamis.cli.screen import output, write_json

    versions = _check(directory, key_file)
    if json:
        write_json(versions)
    else:
        console = output()
        for version in versions:
            said = version["problem"] or f"sound: checksums and structure are right, {version['signature']}"
            console.say(f"{version['version']}: {said}", "" if version["sound"] else "bold")
    raise typer.Exit(0 if all(version["sound"] for version in versions) else NO)


def _check(directory: Path, key_file: Path | None) -> list[dict[str, Any]]:
    from tamis.engine import snapshot
    from tamis.engine.snapshot.signing import read_key, snapshot_key

    key = snapshot_key(None if key_file is None else read_key(key_file))
    versions = snapshot.versions(directory)
    if not versions:
        snapshot.newest(directory)  # says what is missing
    return [_check_version(version, key) for version in versions]


def _check_version(version: Path, key: bytes | None) -> dict[str, Any]:
    """Return what is proved of a version, step by step: a later step is not tried when an earlier one fails."""
    from tamis.engine import snapshot
    from tamis.engine.engine import Engine
    from tamis.engine.snapshot.manifest import is_signed
    from tamis.errors import TamisError

    proved: dict[str, Any] = {"version": version.name, "sound": False, "problem": None}
    proved |= {"checksums": False, "structure": False, "signature": "not checked"}
    try:
        saved = snapshot.read(version, key=key)
        unchecked = "the signature was not checked" if is_signed(version) else "not signed"
        proved |= {"checksums": True, "signature": "signed with this key" if key else unchecked}
        Engine.open(saved, snapshot.Lease(version))
        proved |= {"structure": True, "sound": True}
    except TamisError as error:
        proved["problem"] = str(error)
    return proved
