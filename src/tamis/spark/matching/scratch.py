"""Where the index of a DataFrame of rules lies for as long as this process runs."""

from __future__ import annotations

import atexit
import shutil
import tempfile
import uuid
import warnings
from pathlib import Path

from tamis.engine.snapshot.object_store import is_remote
from tamis.errors import SnapshotError
from tamis.spark.running.small_files import absolute_location, small_files

__all__ = ["remove", "scratch_location"]


def scratch_location(work: str | Path | None) -> str:
    """Return a new location below ``work`` that is removed when this process ends.

    Without ``work`` it is a temporary directory of this machine, which executors on other machines cannot read.
    """
    if work is None:
        location = tempfile.mkdtemp(prefix="tamis-match-")
    else:
        location = f"{absolute_location(work)}/tamis-match-{uuid.uuid4().hex}"
    atexit.register(_remove_at_exit, location)
    return location


def _remove_at_exit(location: str) -> None:
    try:
        remove(location)
    except SnapshotError as error:
        warnings.warn(f"remove {location} by hand: {error.problem}", RuntimeWarning, stacklevel=1)


def remove(location: str) -> None:
    """Remove everything below a location, if there is anything."""
    if is_remote(location):
        objects = small_files(location)
        objects.delete(objects.names())
    else:
        shutil.rmtree(location, ignore_errors=True)
