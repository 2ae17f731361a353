"""Files of an earlier release, brought to the present format once (promise G20).

Format 1 is format 2 without an audit; format 2 is format 3 with one table for all of the audit. The old file stays
beside the new one, under the number of its format.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from tamis.errors import StoreError
from tamis.runtime.disk.checking import DATABASE, check_files, demand_database
from tamis.runtime.disk.copying import copy_database
from tamis.runtime.disk.lock import locked
from tamis.runtime.stores.audit_log import ACTIVITY_SCHEMA, AUDIT_SCHEMA
from tamis.runtime.stores.books import FORMAT, MANIFEST

__all__ = ["migrate_store"]

#: What makes the next format of each older one.
_STEPS = {1: AUDIT_SCHEMA, 2: ACTIVITY_SCHEMA}


def migrate_store(data: Path) -> tuple[int, Path | None]:
    """Bring the file of a broker that does not run to the present format.

    Returns the format that it had, and where the old file is kept; None: it had the present format.
    """
    import apsw

    path = demand_database(data, "there is nothing to migrate, for stores in PostgreSQL have had one format so far")
    if (data / MANIFEST).exists():
        raise StoreError(str(data), "this is a backup: `tamis serve restore` migrates what it restores")
    with locked(data):
        try:
            with contextlib.closing(apsw.Connection(str(path))) as db:
                format = _find_format(path, db)
                if format == FORMAT:
                    return format, None
                kept = path.with_name(f"{DATABASE}.format-{format}")
                if kept.exists():
                    raise StoreError(str(kept), "is there already: it was kept by an earlier migration")
                part = kept.with_name(f"{kept.name}.part")  # whole or not at all
                copy_database(path, part, step_seconds=0.0)
                part.replace(kept)
                steps = "".join(_STEPS[number] for number in range(format, FORMAT))
                db.execute(f"BEGIN IMMEDIATE; {steps} UPDATE books SET format = {FORMAT}; COMMIT")
        except apsw.Error as error:
            raise StoreError(str(path), f"{type(error).__name__}: {error}") from error
        check_files(data)
    return format, kept


def _find_format(path: Path, db: Any) -> int:
    row = db.execute("SELECT format FROM books").fetchone()
    if row is None or row[0] not in (*_STEPS, FORMAT):
        raise StoreError(str(path), f"expected format {', '.join(map(str, _STEPS))} or {FORMAT}, found {row}")
    return int(row[0])
