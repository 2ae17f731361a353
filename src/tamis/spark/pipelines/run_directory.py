"""The directory of a run: written beside its place and put there whole, so that a re-run replaces and never piles up.

``.NAME.building`` is the unfinished run; its writer holds a lock on it. ``.NAME.old`` exists for the
moment between two renames: when a run was killed there, the next one puts it back.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from tamis.errors import TableError

__all__ = ["REPORT", "building", "parse_report", "read_report"]

#: What marks a directory as one that a run may replace.
REPORT = "report.json"


@contextmanager
def building(output: Path) -> Iterator[Path]:
    """Give an empty directory to write a run into; it takes the place of ``output`` when the block ends well."""
    directory, old = output.with_name(f".{output.name}.building"), output.with_name(f".{output.name}.old")
    _refuse_what_is_not_ours(output)
    with _locked(directory, output):
        _clear(output, directory, old)
        try:
            yield directory
            if output.exists():
                os.rename(output, old)
            os.rename(directory, output)
        finally:
            shutil.rmtree(directory, ignore_errors=True)
            shutil.rmtree(old, ignore_errors=True)


@contextmanager
def _locked(directory: Path, output: Path) -> Iterator[None]:
    """Make the directory if need be, and keep other runs out of it."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = os.open(directory, os.O_RDONLY)
    except OSError as error:
        raise TableError(f"{output}: cannot be written: {error.strerror}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise TableError(f"{output}: another run is writing it; wait for its end") from None
    try:
        yield
    finally:
        os.close(lock)


def read_report(output: Path) -> dict[str, object]:
    """Return the report of an earlier run as plain values; empty when there is none that can be read."""
    try:
        return parse_report((output / REPORT).read_bytes())
    except OSError:
        return {}


def parse_report(data: bytes) -> dict[str, object]:
    """Return a report as plain values, empty when the bytes are none."""
    try:
        report = msgspec.json.decode(data)
    except msgspec.DecodeError:
        return {}
    return report if isinstance(report, dict) else {}


def _refuse_what_is_not_ours(output: Path) -> None:
    """A run replaces its directory: never one with other things in it."""
    if output.is_dir() and (not any(output.iterdir()) or "tamis" in read_report(output)):
        return
    if output.exists():
        raise TableError(f"{output}: not a directory of an earlier run (no {REPORT}); choose another output directory")


def _clear(output: Path, directory: Path, old: Path) -> None:
    """Remove what a killed run left, and put back what it had moved away."""
    if old.exists() and not output.exists():
        os.rename(old, output)
    shutil.rmtree(old, ignore_errors=True)
    for entry in directory.iterdir():
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
