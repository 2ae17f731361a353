"""``tamis serve backup``, ``restore``, ``check``, ``compact`` and ``migrate``: work on the files of a broker."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tamis.cli.failures import NO
from tamis.cli.options import Json, examples

__all__ = ["EPILOGS", "backup", "check", "compact", "migrate", "restore"]

EPILOGS = {
    "backup": examples("tamis serve backup /backups/2026-11-17 --data /var/lib/tamis"),
    "restore": examples("tamis serve restore /backups/2026-11-17 --data /var/lib/tamis"),
    "check": examples("tamis serve check --data /var/lib/tamis", "tamis serve check --backup /backups/2026-11-17"),
    "compact": examples("tamis serve compact --data /var/lib/tamis"),
    "migrate": examples("tamis serve migrate --data /var/lib/tamis"),
}

Data = Annotated[Path, typer.Option("--data", metavar="DIR", help="Where the broker keeps its state.")]
_USUAL = Path("tamis-data")


def backup(
    target: Annotated[Path, typer.Argument(metavar="TARGET", help="The directory of the backup; it must not exist.")],
    data: Data = _USUAL,
    json: Json = False,
) -> None:
    """Copy a broker's state as of one moment, tokens and audit included, whether it runs or not.

    The copy is checked as `tamis serve check` does it. It holds everything that clients asked for and were sent, and
    the digests of tokens: keep it as closed as the broker's own directory.
    """
    from tamis.cli.screen import output, write_json
    from tamis.runtime.disk.backup import write_backup

    written = write_backup(data, target)
    if json:
        write_json({"backup": str(target), "commit": written.commit, "bytes": _size(written.files)})
    else:
        output().say(f"{target}: commit {written.commit:,}, {_size(written.files):,} bytes, checked")


def restore(
    source: Annotated[
        Path | None, typer.Argument(metavar="BACKUP", help="A directory that `tamis serve backup` wrote.")
    ] = None,
    data: Data = _USUAL,
    store: Annotated[
        str, typer.Option(metavar="URL", help="Instead of BACKUP: a database that pg_restore has filled.")
    ] = "",
    name: Annotated[str, typer.Option(help="The name of the broker in that database.")] = "broker",
    json: Json = False,
) -> None:
    """Make a data directory of a backup. The broker that starts there begins a new life.

    A damaged backup is refused, and so is a directory that holds files. Neighbours and clients connect to the restored
    broker by themselves; clients are told that events after the backup may be missing. Subscriptions made over HTTP
    after the backup are gone, those withdrawn after it are back.
    """
    from tamis.cli.screen import output, write_json
    from tamis.runtime.broker.config import BrokerConfig
    from tamis.runtime.disk.backup import restore_backup, restore_database

    if (source is None) is not bool(store):
        raise typer.BadParameter("name a backup, or a database with --store")
    if source is None:
        at = restore_database(BrokerConfig(name=name, data=str(data), store=store).check())
        if json:
            write_json({"data": str(data), "at": at})
        else:
            output().say(f"{name}: a new life begins; start it with the same --store and --name")
        return
    restored = restore_backup(source, data)
    if json:
        write_json({"data": str(data), "commit": restored.commit, "at": restored.at})
    else:
        output().say(f"{data}: restored at commit {restored.commit:,}; start it with tamis serve --data {data}")


def check(
    data: Data = _USUAL,
    backup: Annotated[
        Path | None, typer.Option("--backup", metavar="DIR", help="Check a backup instead, its digests included.")
    ] = None,
    json: Json = False,
) -> None:
    """Check every page, record, message and reference of a broker, whether it runs or not. Exit code 1: damage.

    Nothing is changed. It says what it proves; that the files are the newest ones, it cannot prove.
    """
    from tamis.cli.screen import output, write_json
    from tamis.errors import StoreError
    from tamis.runtime.disk.backup import read_backup
    from tamis.runtime.disk.checking import NoFilesError, check_files

    directory = data if backup is None else backup
    if not directory.is_dir():  # a wrong path, which says nothing about any broker
        raise StoreError(str(directory), "there is no such directory")
    try:
        proofs = [] if backup is None else [_digests(len(read_backup(backup).files))]
        proofs += check_files(directory).proofs()
    except NoFilesError:  # it says nothing about the state of any broker
        raise
    except StoreError as error:
        if json:
            write_json({"directory": str(directory), "sound": False, "problem": str(error)})
        else:
            output().say(f"damaged: {error}", "bold")
        raise typer.Exit(NO) from None
    if json:
        write_json({"directory": str(directory), "sound": True, "proofs": proofs})
    else:
        for proof in proofs:
            output().say(proof)


def compact(data: Data = _USUAL, json: Json = False) -> None:
    """Rewrite the file of a broker that does not run, without free pages; nothing in it changes.

    A running broker gives free pages back by itself, some each minute.
    """
    from tamis.cli.screen import output, write_json
    from tamis.runtime.disk.backup import compact as rewrite

    bytes_before, bytes_after = rewrite(data)
    if json:
        write_json({"before": bytes_before, "after": bytes_after})
    else:
        output().say(f"{data}: {bytes_before:,} bytes before, {bytes_after:,} after")


def migrate(data: Data = _USUAL, json: Json = False) -> None:
    """Bring the file that an earlier release wrote to the present format; the old file is kept beside it."""
    from tamis.cli.screen import output, write_json
    from tamis.runtime.disk.migration import migrate_store

    format, old_file = migrate_store(data)
    if json:
        write_json({"format": format, "kept": None if old_file is None else str(old_file)})
    elif old_file is None:
        output().say(f"{data}: format {format} is the present one; nothing was done")
    else:
        output().say(f"{data}: migrated from format {format}; the old file is {old_file}")


def _size(files: object) -> int:
    return sum(file.bytes for file in files.values())  # type: ignore[attr-defined]


def _digests(n_files: int) -> str:
    return f"{n_files:,} files: each is what the backup wrote, by its SHA-256"
