"""``tamis migrate``: an engine saved in an older format becomes one of the present format."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tamis.cli.options import Json, KeyFile, examples

__all__ = ["EPILOG", "migrate"]

EPILOG = examples("tamis migrate saved/ migrated/", "tamis migrate saved/v000007 migrated/")


def migrate(
    old: Annotated[Path, typer.Argument(metavar="OLD", help="A directory of versions, or one version in it.")],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="The directory for the new version.")],
    key_file: KeyFile = None,
    json: Json = False,
) -> None:
    """Convert an engine that an older version of tamis saved to the current format.

    Formats 1 to 3 are read. Ids, filters, ends, metadata and the schema are kept. Nothing in OLD is changed.
    """
    from tamis.cli.screen import output, write_json
    from tamis.engine.migration import migrate_snapshot
    from tamis.engine.snapshot.signing import read_key

    version = migrate_snapshot(old, new, None if key_file is None else read_key(key_file))
    if json:
        write_json({"saved": str(version)})
    else:
        output().say(f"saved as {version}")
