"""``tamis verify``: whether the files of a saved engine are what was written."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tamis.cli.failures import NO
from tamis.cli.options import Json, examples

__all__ = ["EPILOG", "verify"]

EPILOG = examples("tamis verify saved/", "tamis verify saved/ --json")


def verify(
    directory: Annotated[Path, typer.Argument(metavar="DIRECTORY", help="Where an engine was saved.")],
    json: Json = False,
) -> None:
    """Check every file of every version of a saved engine. Exit code 0: all sound, 1: something is damaged.

    Nothing is changed; a damaged version is named with its file and what is wrong with it.
    """
    from tamis.cli.screen import output, write_json

    found = _check(directory)
    if json:
        write_json(found)
    else:
        console = output()
        for one in found:
            console.say(f"{one['version']}: {one['problem'] or 'sound'}", "" if one["sound"] else "bold")
    raise typer.Exit(0 if all(one["sound"] for one in found) else NO)


def _check(directory: Path) -> list[dict[str, Any]]:
    from tamis.engine import snapshot
    from tamis.errors import SnapshotError

    found = []
    versions = snapshot.versions(directory)
    if not versions:
        snapshot.newest(directory)  # says what is missing
    for version in versions:
        problem = None
        try:
            snapshot.read(version)
        except SnapshotError as error:
            problem = str(error)
        found.append({"version": version.name, "sound": problem is None, "problem": problem})
    return found
