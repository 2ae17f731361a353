"""``tamis consume`` and ``tamis dead-letters``: a subscription that several programs read together."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from tamis.cli.broker.at_broker import HERE, Broker, Namespace, at_broker
from tamis.cli.options import Json, examples

__all__ = ["CONSUME_EPILOG", "LETTERS_EPILOG", "consume", "dead_letters"]

CONSUME_EPILOG = examples(
    "tamis consume strong --consumer worker-1",
    "tamis consume strong --consumer worker-2 --seconds 5 --json | ./handle",
)
LETTERS_EPILOG = examples(
    "tamis dead-letters list strong",
    "tamis dead-letters replay strong --all",
    "tamis dead-letters drop strong --cursor 1794798248682262-17",
)

Id = Annotated[str, typer.Argument(metavar="ID", help="The id of a durable subscription made over HTTP.")]


class Action(StrEnum):
    """What to do with dead letters."""

    LIST = "list"
    REPLAY = "replay"
    DROP = "drop"


@at_broker
def consume(
    id: Id,
    consumer: Annotated[str, typer.Option("--consumer", help="The name of this program within the group.")],
    seconds: Annotated[
        float, typer.Option(min=0.1, max=3600, help="How long a message is yours; then another consumer gets it.")
    ] = 30.0,
    batch: Annotated[int, typer.Option(min=1, max=256, help="Messages that are taken at once.")] = 16,
    count: Annotated[int | None, typer.Option(min=1, help="Stop after N events.")] = None,
    broker: Broker = HERE,
    namespace: Namespace = "default",
    json: Json = False,
) -> None:
    """Print the events of a subscription that several consumers share, each event once among them, until Ctrl-C.

    An event is acknowledged when its line is written.
    """
    from itertools import islice

    import msgspec

    from tamis.runtime.client.consuming import consume as consume_from

    group = consume_from(
        broker.url,
        id,
        consumer=consumer,
        token=broker.token or "",
        namespace=namespace,
        seconds=seconds,
        batch=min(batch, count or batch),
        insecure=broker.insecure,
    )
    for delivery in islice(group, count):
        shown: Any = (
            {"id": delivery.id, "event": delivery.event, "deliveries": delivery.deliveries} if json else delivery.event
        )
        print(msgspec.json.encode(shown).decode(), flush=True)
        delivery.ack()


@at_broker
def dead_letters(
    action: Annotated[Action, typer.Argument(help="list, replay (put back into the queue) or drop.")],
    id: Id,
    cursor: Annotated[
        list[str] | None, typer.Option("--cursor", help="Replay or drop this letter; may be repeated.")
    ] = None,
    all: Annotated[bool, typer.Option("--all", help="Replay or drop all letters that are there now.")] = False,
    broker: Broker = HERE,
    namespace: Namespace = "default",
    json: Json = False,
) -> None:
    """List, replay or drop the messages of a subscription that its consumers took too often."""
    from tamis.cli.screen import output, write_json, write_json_lines
    from tamis.errors import ModelError
    from tamis.runtime.client.consuming import consume as consume_from

    group = consume_from(
        broker.url,
        id,
        consumer="dead-letters",
        token=broker.token or "",
        namespace=namespace,
        insecure=broker.insecure,
        seconds=1,
    )
    if action is Action.LIST:
        write_json_lines(_letters(group))
        return
    if bool(cursor) == all:
        raise ModelError(f"{action.value}: name letters with --cursor, or all of them with --all")
    change = group.replay if action is Action.REPLAY else group.drop
    count = change(cursors=cursor) if cursor else _change_all(group, change)
    if json:
        write_json({action.value: count})
    else:
        output().say(f"{count:,} {'replayed' if action is Action.REPLAY else 'dropped'}")


def _letters(group: Any) -> list[dict[str, Any]]:
    """Return all dead letters, the oldest first."""
    letters, cursor = list[dict[str, Any]](), ""
    while True:
        page = group.dead_letters(after=cursor)
        letters += page["letters"]
        cursor = page["next"]
        if cursor is None:
            return letters


def _change_all(group: Any, change: Any) -> int:
    letters = _letters(group)
    count = 0
    for start in range(0, len(letters), 256):
        count += change(cursors=[letter["cursor"] for letter in letters[start : start + 256]])
    return count
