"""Signed manifests: HMAC-SHA256 with a key that writers and readers share.

Checksums show damage, not intent: an attacker can change a file and compute them again. A signed manifest has a
SHA-256 of every file, and a signature of all that. Where a key is set, an unsigned version, or one signed with another
key, is refused before anything in its manifest is used.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import stat
from pathlib import Path

from tamis.errors import SnapshotError

__all__ = ["KEY_FILE", "read_key", "sha256_of", "sign", "snapshot_key"]

#: The environment variable that names a key file for everything this process saves and opens.
KEY_FILE = "TAMIS_SNAPSHOT_KEY_FILE"

_LEAST_BYTES, _MOST_BYTES = 32, 4096


def snapshot_key(key: bytes | None = None) -> bytes | None:
    """Return the key, by default from the file that the environment names; None if there is none."""
    if key is not None:
        return _checked(key, "the key")
    path = os.environ.get(KEY_FILE)
    return read_key(Path(path)) if path else None


def read_key(path: Path) -> bytes:
    """Return the bytes of a key file, without spaces and line ends around them; only its owner may read it."""
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            key = file.read(_MOST_BYTES + 1).strip()
    except OSError as error:
        raise SnapshotError(str(path), f"the key cannot be read: {error.strerror}") from error
    if stat.S_IMODE(mode) & 0o077:
        raise SnapshotError(str(path), f"other users can read the key: chmod 600 {path}")
    return _checked(key, str(path))


def sign(key: bytes, format: int, contents: bytes) -> str:
    """Return the signature of a manifest."""
    return hmac.new(key, b"tamis snapshot %d\0" % format + contents, hashlib.sha256).hexdigest()


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file as hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _checked(key: bytes, source: str) -> bytes:
    if not isinstance(key, bytes) or not _LEAST_BYTES <= len(key) <= _MOST_BYTES:
        limits = f"{_LEAST_BYTES} to {_MOST_BYTES:,} bytes"
        raise SnapshotError(source, f"a key has {limits}; make one with: openssl rand -hex 32 > FILE; chmod 600 FILE")
    return key
