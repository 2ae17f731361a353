"""The operations of an object store that snapshots need: create if absent, read, replace, list, delete.

The store is a URI. `CloudStore` is for ``s3://bucket/path``, ``gs://`` and ``az://``: credentials and endpoints come
from the environment, as the tools of each provider read them (``AWS_ACCESS_KEY_ID``, ``AWS_ENDPOINT_URL``, ...), and
requests go through ``obstore``, which retries what fails on the way. ``hdfs://`` is served by
`tamis.engine.snapshot.hadoop_store`.
"""

from __future__ import annotations

import datetime as dt
import os
import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from tamis.errors import MissingExtraError, SnapshotError

__all__ = [
    "CLOUD_STORES",
    "CloudStore",
    "ObjectStore",
    "StoredObject",
    "check_slashes",
    "is_in_cloud",
    "is_remote",
    "local_path",
    "open_store",
]

T = TypeVar("T")

#: Schemes of cloud stores that can create an object only if it is absent.
_CLOUD = ("s3", "s3a", "gs", "az", "abfs", "abfss")
#: Schemes that Hadoop's client serves; renaming in HDFS never overwrites, which is what creating if absent needs.
_HADOOP = ("hdfs", "viewfs")
#: How the URIs of cloud stores begin, for messages.
CLOUD_STORES = ", ".join(f"{scheme}://" for scheme in _CLOUD)
#: A URI whose second slash is missing; a drive of Windows has one letter.
_SHORTENED_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/(?!/)")
#: Bytes of one request while an object is read.
_CHUNK = 8 << 20


class StoredObject(NamedTuple):
    """An object that a store lists."""

    name: str
    size: int
    modified: dt.datetime


class ObjectStore(Protocol):
    """Objects below one URI; names are relative to it."""

    uri: str

    def read(self, name: str, most: int) -> bytes | None:
        """Return the bytes of an object, None if it is absent; `SnapshotError` if there are more than ``most``."""

    def exists(self, name: str) -> bool:
        """Return whether an object exists."""

    def create(self, name: str, data: bytes) -> bool:
        """Create an object if it is absent; return whether it contains ``data`` now."""

    def replace(self, name: str, data: bytes) -> None:
        """Write an object; an existing one is overwritten."""

    def upload(self, file: Path, name: str) -> None:
        """Write a file as an object whose name is new."""

    def download(self, name: str, file: Path, most: int) -> None:
        """Write an object to a new file; `SnapshotError` if there are more than ``most`` bytes."""

    def list(self, prefix: str = "") -> list[StoredObject]:
        """Return the objects whose names begin with a prefix; only pruning and `tamis verify` look at lists."""

    def delete(self, names: Iterable[str]) -> None:
        """Remove objects; absent ones are ignored."""


def is_remote(location: str | Path) -> bool:
    """Return whether a location is a URI of an object store; `SnapshotError` for an unsupported scheme.

    >>> is_remote("s3://bucket/rules"), is_remote("/data/rules"), is_remote("file:///data/rules")
    (True, False, False)
    """
    scheme = _scheme(location)
    if scheme in ("", "file"):
        return False
    if scheme in (*_CLOUD, *_HADOOP):
        return True
    stores = f"{CLOUD_STORES}, hdfs://"
    raise SnapshotError(str(location), f"{scheme}:// is not a store for snapshots; use a directory or {stores}")


def is_in_cloud(location: str | Path) -> bool:
    """Return whether a location is a URI of a cloud store."""
    return _scheme(location) in _CLOUD


def _scheme(location: str | Path) -> str:
    scheme, separator, _ = str(location).partition("://")
    return scheme if separator and not isinstance(location, Path) else ""


def local_path(location: str | Path) -> Path:
    """Return the directory of a path or of a ``file://`` URI, as an absolute path.

    A URI that has lost a slash is refused (`check_slashes`).
    """
    check_slashes(location)
    if not isinstance(location, str) or not location.startswith("file://"):
        return Path(location).absolute()
    host, slash, path = location.removeprefix("file://").partition("/")
    if host not in ("", "localhost") or not slash:
        raise SnapshotError(location, "a file:// URI of this machine has three slashes, such as file:///data/rules")
    return Path("/" + path).absolute()


def check_slashes(location: str | Path) -> None:
    """Raise `SnapshotError` for what is left of a URI that went through `pathlib.Path`, such as ``s3:/bucket``."""
    if _SHORTENED_URI.match(str(location)):
        raise SnapshotError(str(location), "a URI has two slashes; give it as a string, because Path drops one of them")


@lru_cache(maxsize=16)
def open_store(uri: str) -> ObjectStore:
    """Return the store at a URI; names in it are relative to the URI."""
    if is_in_cloud(uri):
        return CloudStore(uri.rstrip("/"))
    from tamis.engine.snapshot.hadoop_store import HadoopStore

    return HadoopStore(uri.rstrip("/"))


class CloudStore:
    """Objects below a URI of S3, Google or Azure."""

    def __init__(self, uri: str) -> None:
        try:
            import obstore
            from obstore.store import from_url
        except ImportError:
            raise MissingExtraError(f"a snapshot at {uri}", "cloud") from None
        self.uri = uri
        self._api: Any = obstore
        plain_http = os.environ.get("AWS_ENDPOINT_URL", "").startswith("http://")
        options: dict[str, Any] = {"client_options": {"allow_http": True}} if plain_http else {}
        self._store = self._checked("", lambda: from_url(uri, **options))

    def read(self, name: str, most: int) -> bytes | None:
        """Return the bytes of an object, None if it is absent; `SnapshotError` if there are more than ``most``."""

        def fetch() -> bytes:
            answer = self._api.get(self._store, name)
            if answer.meta["size"] > most:
                raise SnapshotError(f"{self.uri}/{name}", f"larger than {most:,} bytes")
            return bytes(answer.bytes())

        try:
            return self._checked(name, fetch)
        except FileNotFoundError:
            return None

    def exists(self, name: str) -> bool:
        """Return whether an object exists."""
        try:
            self._checked(name, lambda: self._api.head(self._store, name))
        except FileNotFoundError:
            return False
        return True

    def create(self, name: str, data: bytes) -> bool:
        """Create an object if it is absent; return whether it contains ``data`` now.

        If the answer was lost, the repeated request finds the object of the first: an object with these bytes is ours.
        """
        try:
            self._checked(name, lambda: self._api.put(self._store, name, data, mode="create", use_multipart=False))
        except FileExistsError:
            return self.read(name, max(len(data), 1 << 28)) == data
        return True

    def replace(self, name: str, data: bytes) -> None:
        """Write an object; an existing one is overwritten."""
        self._checked(name, lambda: self._api.put(self._store, name, data))

    def upload(self, file: Path, name: str) -> None:
        """Write a file as an object whose name is new."""
        self._checked(name, lambda: self._api.put(self._store, name, file))

    def download(self, name: str, file: Path, most: int) -> None:
        """Write an object to a new file; `SnapshotError` as soon as there are more than ``most`` bytes."""

        def fetch() -> None:
            written = 0
            with file.open("xb") as out:
                for chunk in self._api.get(self._store, name).stream(min_chunk_size=_CHUNK):
                    written += len(chunk)
                    if written > most:
                        raise SnapshotError(f"{self.uri}/{name}", f"torn: more than the {most} bytes of the manifest")
                    out.write(chunk)

        try:
            self._checked(name, fetch)
        except FileNotFoundError:
            raise SnapshotError(f"{self.uri}/{name}", "the object is gone: was the version pruned?") from None

    def list(self, prefix: str = "") -> list[StoredObject]:
        """Return the objects whose names begin with a prefix; only pruning and `tamis verify` look at lists."""

        def fetch() -> list[StoredObject]:
            pages = self._api.list(self._store, prefix or None)
            return [
                StoredObject(entry["path"], entry["size"], entry["last_modified"]) for page in pages for entry in page
            ]

        return self._checked(prefix, fetch)

    def delete(self, names: Iterable[str]) -> None:
        """Remove objects; absent ones are ignored."""
        for name in names:
            try:
                self._checked(name, lambda name=name: self._api.delete(self._store, name))  # type: ignore[misc]
            except FileNotFoundError:
                continue

    def _checked(self, name: str, request: Callable[[], T]) -> T:
        """Return the answer to a request; an error names the object that failed."""
        from obstore.exceptions import AlreadyExistsError, BaseError

        try:
            return request()
        except AlreadyExistsError as error:
            raise FileExistsError(name) from error
        except (BaseError, ValueError, OSError) as error:
            if isinstance(error, FileNotFoundError):
                raise
            reason = str(error).strip().splitlines()[0][:300] if str(error).strip() else type(error).__name__
            hint = "check the address, the network and the credentials in the environment"
            raise SnapshotError(f"{self.uri}/{name}".rstrip("/"), f"{reason}; {hint}") from error
