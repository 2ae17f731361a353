"""Stores versions in an object store, without renames, locks or trust in listings.

::

    URI/newest                       a number, only a hint
    URI/v000001/manifest.json        the version: it exists when this object was created, if absent, under its number
    URI/parts-0123.../p.arrays       immutable objects under names that are used once

Numbers have no gaps: a version that is pruned leaves an empty object under its number. So the newest version is found
by asking for numbers upwards from the hint, and a slow writer can never take a number that was used before.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable

from tamis.engine.snapshot.manifest import MANIFEST, MOST_MANIFEST_BYTES, parse_manifest
from tamis.engine.snapshot.object_store import ObjectStore, open_store
from tamis.errors import SnapshotConflictError, SnapshotError

__all__ = [
    "GRACE_SECONDS",
    "find_remote_newest",
    "prune_remote",
    "publish_remote",
    "remote_newest",
    "remote_version_at",
    "remote_versions",
]

#: Seconds that a version stays after it may be pruned, and that parts without a version stay: readers of an object
#: store cannot be seen, and writers upload parts before their manifest.
GRACE_SECONDS = 24 * 3600.0

_HINT = "newest"
#: Digits of the number of a version.
_DIGITS = 12
_VERSION = re.compile(r"v(\d{6,})")
_PRUNED = b""


def find_remote_newest(uri: str) -> str | None:
    """Return the URI of the newest version, None if there is none."""
    store = open_store(uri)
    number = _newest_number(store)
    while number and not store.read(_manifest(number), MOST_MANIFEST_BYTES):  # pruned since
        number -= 1
    return f"{store.uri}/v{number:06d}" if number else None


def remote_newest(uri: str) -> str:
    """Return the URI of the newest version."""
    version = find_remote_newest(uri)
    if version is None:
        raise SnapshotError(uri, "there is no saved engine in it (no object such as v000001/manifest.json)")
    return version


def remote_version_at(uri: str) -> str:
    """Return the version a URI means: itself when it ends like one, else the newest below it."""
    uri = uri.rstrip("/")
    return uri if _VERSION.fullmatch(uri.rpartition("/")[2]) else remote_newest(uri)


def publish_remote(uri: str, manifest: bytes, after: str | None = None) -> str:
    """Create the manifest under the next free number; return the URI of the version.

    With ``after`` it is published only as the version that follows this one; else `SnapshotConflictError`.
    """
    store = open_store(uri)
    number = _newest_number(store) + 1 if after is None else int(after.rpartition("/v")[2]) + 1
    while not store.create(_manifest(number), manifest):  # another writer was faster
        if after is not None:
            problem = f"another writer published {_manifest(number)} first; read the newest version and try again"
            raise SnapshotConflictError(uri, problem)
        number += 1
    store.replace(_HINT, str(number).encode())
    return f"{store.uri}/v{number:06d}"


def remote_versions(uri: str) -> list[str]:
    """Return the versions that are not pruned, the oldest first."""
    store = open_store(uri)
    return [
        f"{store.uri}/v{number:06d}" for number in range(1, _newest_number(store) + 1) if _read_manifest(store, number)
    ]


def prune_remote(uri: str, *, keep: int, needed: Iterable[str], grace: float) -> list[str]:
    """Remove old versions and parts that no version names; return the names of the versions.

    Kept are the newest ``keep``, those in ``needed``, and whatever is younger than ``grace`` seconds.
    """
    store, names = open_store(uri), set(needed)
    newest = _newest_number(store)
    before = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=grace)
    written = {stored.name: stored.modified for stored in store.list()}
    pruned, homes = [], set[str]()
    for number in range(newest, 0, -1):
        data = _read_manifest(store, number)
        if not data:
            continue
        name = f"v{number:06d}"
        # A version is replaced when the next one is written: its readers have had the grace since then.
        replaced = written.get(_manifest(number + 1))
        if number > newest - keep or name in names or replaced is None or replaced > before:
            homes |= parse_manifest(f"{store.uri}/{_manifest(number)}", data).homes()
            continue
        store.replace(_manifest(number), _PRUNED)
        pruned.append(name)
    old = (name for name, modified in written.items() if name.startswith("parts-") and modified < before)
    store.delete(name for name in old if _home(name) not in homes)
    return pruned[::-1]


def _home(name: str) -> str:
    return name.partition("/")[0]


def _manifest(number: int) -> str:
    return f"v{number:06d}/{MANIFEST}"


def _read_manifest(store: ObjectStore, number: int) -> bytes | None:
    return store.read(_manifest(number), MOST_MANIFEST_BYTES)


def _newest_number(store: ObjectStore) -> int:
    """Return the highest number in use, 0 when there is none: numbers in use have no gaps, so probe by doubling."""
    hint = store.read(_HINT, 64)
    low = int(hint) if hint and hint.isdigit() and len(hint) <= _DIGITS else 0
    if low and not store.exists(_manifest(low)):
        low = 0
    step = 1
    while store.exists(_manifest(low + step)):
        low, step = low + step, 2 * step
        if low >= 10**_DIGITS:
            raise SnapshotError(store.uri, "the store says of every object that it exists")
    high = low + step  # not in use; everything up to ``low`` is
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if store.exists(_manifest(middle)) else (low, middle)
    return low
