"""``tamis serve audit``: who did what at a broker, the newest first."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tamis.cli.broker.at_broker import HERE, Broker, at_broker
from tamis.cli.options import Json, examples

if TYPE_CHECKING:
    from tamis.runtime.client.http_calls import HttpCalls

__all__ = ["EPILOG", "audit"]

EPILOG = examples(
    "tamis serve audit",
    "TAMIS_TOKEN=... tamis serve audit --url https://north.example:8443 --json | jq 'select(.what == \"refuse\")'",
    "tamis serve audit --data /var/lib/tamis --limit 20",
)

#: Records of one request.
_PAGE = 1_000


@at_broker
def audit(
    broker: Broker = HERE,
    data: Annotated[
        Path | None,
        typer.Option("--data", metavar="DIR", help="Read and check the files of a broker that does not run, instead."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many records.")] = 100,
    json: Json = False,
) -> None:
    """Print who did what: subscriptions, refusals, links, tokens, starts and stops; the newest first.

    The token must be one that was made with --admin.
    """
    import itertools

    from tamis.cli.screen import make_table, output, plain, write_json_lines

    records = itertools.islice(_records(broker.calls(), limit) if data is None else _stored(data), limit)
    if json:
        write_json_lines(list(records))
        return
    table = make_table("when", "who", "from", "what", "subject", "namespace", "detail")
    for record in records:
        cells = (
            _moment(record["at"]),
            *(record[name] for name in ("who", "address", "what", "subject", "namespace", "detail")),
        )
        table.add_row(*map(plain, cells))
    output().print(table)


def _records(calls: HttpCalls, limit: int) -> Iterator[dict[str, Any]]:
    next_number = None
    while True:
        page = calls.read_audit(before=next_number, limit=min(limit, _PAGE))
        yield from page["deeds"]
        next_number = page["next"]
        if next_number is None:
            return


def _stored(directory: Path) -> Iterator[dict[str, Any]]:
    import contextlib

    from tamis.runtime.disk.checking import demand_database
    from tamis.runtime.stores.sqlite_store import SqliteStore

    demand_database(directory, "ask the running broker for its audit, with --url instead of --data")
    with contextlib.closing(SqliteStore(directory)) as store:
        store.load()
        next_number: int | None = None
        while page := store.read_audit(next_number, _PAGE):
            for record in page:
                yield {"number": record.number} | {
                    name: getattr(record.deed, name) for name in record.deed.__struct_fields__
                }
            next_number = page[-1].number


def _moment(at: int) -> str:
    import datetime as dt

    return dt.datetime.fromtimestamp(at / 1e6, dt.UTC).strftime("%Y-%m-%d %H:%M:%S")
