"""``tamis consume`` and ``tamis dead-letters``: a subscription that several programs read together."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from tamis.cli.broker.at_broker import HERE, Broker, Namespace, at_broker
from tamis.cli.failures import NO
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

#: Seconds for which a consumer goes on trying while its broker is away.
PATIENCE = 60.0


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

    from tamis.errors import ModelError
    from tamis.runtime.client.consuming import Consumer

    if not consumer:
        raise ModelError("--consumer: expected a name that no other program of the group has")
    calls = broker.calls(namespace, patience=PATIENCE)
    group = Consumer(calls, id, consumer, seconds, min(batch, count or batch))
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
    """List, replay or drop the messages of a subscription that its consumers took too often.

    Exit code 1: a cursor is that of no dead letter.
    """
    from tamis.cli.screen import errors, output, write_json, write_json_lines
    from tamis.errors import ModelError
    from tamis.runtime.client.consuming import Consumer

    group = Consumer(broker.calls(namespace), id, "dead-letters")
    if action is Action.LIST:
        write_json_lines(_letters(group))
        return
    if cursor and all:
        raise ModelError(
            f"{action.value}: --all and --cursor were both given; name letters with --cursor, or say --all"
        )
    if not cursor and not all:
        raise ModelError(f"{action.value}: name letters with --cursor, or all of them with --all")
    change = group.replay if action is Action.REPLAY else group.drop
    changed = {letter: change(cursors=[letter]) for letter in cursor or ()}
    count = sum(changed.values()) if cursor else _change_all(group, change)
    if json:
        write_json({action.value: count})
    else:
        output().say(f"{count:,} {'replayed' if action is Action.REPLAY else 'dropped'}")
    missing = [letter for letter, n in changed.items() if not n]
    if missing:
        errors().say(f"error: {id} has no dead letter {', '.join(missing)}", "red")
        errors().say(f"hint: tamis dead-letters list {id} shows those that are there")
        raise typer.Exit(NO)


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
