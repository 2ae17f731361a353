"""Backups of a broker: taken while it runs, consistent as of one moment, and restored as a new life (promise G20).

A backup is a directory with a copy of the database, the tokens, and a manifest, which is written last: the moment, the
life of the broker, where its audit ends, and the SHA-256 of every file. A directory without a manifest is not a backup.

The copy is made by SQLite's own backup in small steps with pauses, within one transaction that only reads: the broker
goes on to commit meanwhile, and what it commits is not in the copy. Its log cannot be emptied while that lasts.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from tamis import __version__
from tamis.errors import StoreError
from tamis.node import records
from tamis.node.effects import Persist
from tamis.routing.edge.audit import Deed
from tamis.routing.new_life import begin_new_life
from tamis.runtime.broker.config import BrokerConfig
from tamis.runtime.disk.checking import DATABASE, TOKENS, Checked, check_files, demand_database, is_client
from tamis.runtime.disk.copying import STEP_SECONDS, copy_database, flush
from tamis.runtime.disk.migration import migrate_store
from tamis.runtime.stores.books import MANIFEST
from tamis.runtime.stores.opening import open_to_restore
from tamis.runtime.stores.protocol import Store
from tamis.runtime.stores.sqlite_store import SqliteStore

__all__ = ["Backup", "compact", "read_backup", "restore_backup", "restore_database", "write_backup"]


#: The layout of a backup. Another one is refused.
FORMAT = 1


class BackupFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a file of a backup must be."""

    bytes: int
    sha256: str


class Backup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The manifest; ``at`` is in microseconds UTC."""

    format: int
    tamis: str
    at: int
    epoch: int
    commit: int
    audit_last: int
    audit_seal: str
    files: dict[str, BackupFile]


def write_backup(data: Path, target: Path, *, step_seconds: float = STEP_SECONDS) -> Backup:
    """Copy a broker's files, whether it runs or not, and check the copy; ``target`` must not be there."""
    database = demand_database(data, "copy it with pg_dump; docs/server.md has the commands")
    if target.exists():
        raise StoreError(str(target), "is there already; a backup is a directory of its own")
    with _draft(target) as draft:
        at = round(time.time() * 1e6)
        copy_database(database, draft / DATABASE, step_seconds)
        if (data / TOKENS).exists():
            _write(draft / TOKENS, (data / TOKENS).read_bytes())
        checked = check_files(draft)
        backup = _manifest(draft, at, checked)
        _write(draft / MANIFEST, msgspec.json.format(msgspec.json.encode(backup)))
    return backup


def read_backup(directory: Path) -> Backup:
    """Return the manifest of a backup after checking everything in it; `StoreError` names what is wrong."""
    backup = _read_manifest(directory)
    _demand_agreement(backup, check_files(directory), directory)
    return backup


def _read_manifest(directory: Path) -> Backup:
    """Return the manifest of a backup after comparing the digests of its files."""
    path = directory / MANIFEST
    try:
        backup = msgspec.json.decode(path.read_bytes(), type=Backup)
    except FileNotFoundError:
        raise StoreError(str(directory), f"not a backup: there is no {MANIFEST}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StoreError(str(path), f"not the manifest of a backup: {error}") from None
    if backup.format != FORMAT:
        raise StoreError(str(path), f"expected a backup of format {FORMAT}, found {backup.format}")
    if DATABASE not in backup.files or not backup.files.keys() <= {DATABASE, TOKENS}:
        raise StoreError(str(path), f"a backup holds {DATABASE} and {TOKENS}, not {', '.join(backup.files)}")
    for name, expected in backup.files.items():
        file = directory / name
        if not file.is_file() or _measure(file) != expected:
            raise StoreError(str(file), "is missing or was changed since the backup was written")
    return backup


def _demand_agreement(backup: Backup, checked: Checked, directory: Path) -> None:
    """Raise `StoreError` unless the files are those that the manifest describes."""
    if (checked.epoch, checked.commit, checked.audit_seal) != (backup.epoch, backup.commit, backup.audit_seal):
        raise StoreError(str(directory / MANIFEST), "does not belong to the files beside it")


def restore_backup(directory: Path, data: Path) -> Backup:
    """Put a backup into an empty or new data directory, where it begins a new life; an older format is migrated."""
    backup = _read_manifest(directory)
    _demand_empty(data)
    with _draft(data) as draft:
        for name in backup.files:
            _write(draft / name, (directory / name))
        _, kept = migrate_store(draft)
        if kept is not None:
            kept.unlink()  # the backup has it
        _demand_agreement(backup, check_files(draft), directory)
        with contextlib.closing(SqliteStore(draft)) as store:
            _begin_new_life(store, backup.at)
    return backup


def restore_database(config: BrokerConfig) -> int:
    """Begin a new life in a database that an older copy was put into; return the moment of its last record.

    That moment is in microseconds UTC, 0 when the audit is empty. The head of the former life counts until the new life
    has begun: what is refused changes nothing.
    """
    with contextlib.closing(open_to_restore(config)) as store:
        return _begin_new_life(store, None)


def compact(data: Path) -> tuple[int, int]:
    """Rewrite the file of a broker that does not run without free pages; returns its bytes before and after."""
    demand_database(data, "autovacuum compacts it, and so does the command VACUUM of PostgreSQL")
    with contextlib.closing(SqliteStore(data)) as store:
        store.load()
        before = store.size()
        store.compact()
        return before, store.size()


def _begin_new_life(store: Store, at: int | None) -> int:
    """Begin a new life behind a copy of some moment, by default that of its last deed; return the moment."""
    stored = store.load()
    since = max((record.deed.at for record in store.read_audit(limit=1)), default=0) if at is None else at
    neighbours = {link for (link,), _ in records.LINK.items(stored) if not is_client(link)}
    changes = begin_new_life(stored, neighbours, epoch=round(time.time() * 1e6), since=since)
    store.commit([*changes, _deed(store, since)], now=time.time())
    return since


def _deed(store: Store, at: int) -> Persist:
    moment = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at / 1e6))
    deed = Deed(round(time.time() * 1e6), "operator", "restore", address="file", detail=f"backup of {moment} UTC")
    return records.AUDIT.put(str(store.audited + 1), value=msgspec.msgpack.encode(deed))


def _manifest(directory: Path, at: int, checked: Checked) -> Backup:
    files = {name: _measure(directory / name) for name in (DATABASE, TOKENS) if (directory / name).exists()}
    seal = checked.audit_seal
    return Backup(FORMAT, __version__, at, checked.epoch, checked.commit, checked.audit_last, seal, files)


def _measure(file: Path) -> BackupFile:
    with file.open("rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
    return BackupFile(file.stat().st_size, digest)


def _demand_empty(data: Path) -> None:
    """Raise `StoreError` unless a broker may be restored to a directory."""
    if data.exists() and not data.is_dir():
        raise StoreError(str(data), "is a file; a broker is restored to a directory")
    if data.exists() and any(data.iterdir()):
        raise StoreError(
            str(data), "is in use: it holds files already. Stop its broker and move the directory away, then try again"
        )


@contextlib.contextmanager
def _draft(target: Path) -> Iterator[Path]:
    """Yield a new directory that gets its name when all is in it; what fails leaves nothing behind."""
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    target.parent.mkdir(parents=True, exist_ok=True)
    draft.mkdir(mode=0o700)
    try:
        yield draft
        if target.exists():
            target.rmdir()
        draft.rename(target)
        flush(target)
        flush(target.parent)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _write(path: Path, content: bytes | Path) -> None:
    """Write a file of this user's own, from bytes or from another file, and flush it."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        if isinstance(content, bytes):
            file.write(content)
        else:
            with content.open("rb") as origin:
                shutil.copyfileobj(origin, file, 1 << 20)
        file.flush()
        os.fsync(file.fileno())
