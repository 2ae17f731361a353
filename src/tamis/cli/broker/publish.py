"""``tamis publish`` and ``tamis subscribe``: a broker's clients for the shell."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Annotated, Any

import typer

from tamis.cli.broker.at_broker import HERE, Broker, Namespace, at_broker
from tamis.cli.options import Json, examples

__all__ = ["PUBLISH_EPILOG", "SUBSCRIBE_EPILOG", "publish", "subscribe"]

PUBLISH_EPILOG = examples(
    'tamis publish \'{"mag": 6.1, "place": "Alaska"}\'',
    "tamis publish quakes.jsonl --namespace quakes",
    "generator | tamis publish -",
)
SUBSCRIBE_EPILOG = examples(
    'tamis subscribe "mag >= 5"',
    'tamis subscribe "mag >= 5" --id strong --client pager --durable',
    'tamis subscribe "mag >= 5" --fields mag,place',
    'tamis subscribe "mag >= 5" --json --count 10 | jq .event.place',
)

#: Events that are read and sent at once.
BATCH = 1_024


@at_broker
def publish(
    events: Annotated[
        str, typer.Argument(metavar="EVENTS", help="An event as JSON, a .jsonl file, or - for standard input.")
    ],
    broker: Broker = HERE,
    namespace: Namespace = "default",
    json: Json = False,
) -> None:
    """Publish events; done when the broker has all of them on disk."""
    from tamis.cli.screen import output, write_json
    from tamis.runtime.client.connecting import connect

    count = 0
    with connect(
        broker.url, token=broker.token, insecure=broker.insecure, timeout=broker.first_answer_seconds
    ) as client:
        for batch in _batches(_read(events)):
            client.publish(batch, namespace=namespace)
            count += len(batch)
    if json:
        write_json({"published": count})
    else:
        output().say(f"{count:,} published")


@at_broker
def subscribe(
    filter: Annotated[str, typer.Argument(metavar="FILTER", help="The filter, as CQL2 text or JSON.")],
    id: Annotated[str | None, typer.Option(help="The subscription's id; a random one otherwise.")] = None,
    client: Annotated[
        str | None, typer.Option(help="Your name; durable subscriptions are found again under it.")
    ] = None,
    durable: Annotated[
        bool,
        typer.Option("--durable", help="Keep the subscription, and its matching events, while you are disconnected."),
    ] = False,
    fields: Annotated[
        str | None, typer.Option(metavar="NAMES", help="The attributes that deliveries carry, as mag,place.")
    ] = None,
    count: Annotated[int | None, typer.Option(min=1, help="Stop after N events.")] = None,
    broker: Broker = HERE,
    namespace: Namespace = "default",
    json: Json = False,
) -> None:
    """Print matching events as they come, until Ctrl-C. With --durable and --client nothing is missed in between."""
    import msgspec

    from tamis.runtime.client.connecting import connect

    with connect(
        broker.url, token=broker.token, client=client, insecure=broker.insecure, timeout=broker.first_answer_seconds
    ) as connected:
        names = [name.strip() for name in fields.split(",")] if fields else []
        subscription = connected.subscribe(filter, id=id, durable=durable, namespace=namespace, fields=names)
        for delivery in islice(subscription, count):
            shown: Any = (
                {"id": delivery.id, "event": delivery.event, "subscriptions": delivery.subscriptions}
                if json
                else delivery.event
            )
            print(msgspec.json.encode(shown, enc_hook=repr).decode(), flush=True)
            delivery.ack()


def _read(events: str) -> Iterator[dict[str, Any]]:
    from tamis.errors import TableError
    from tamis.files.strict_json import read_object

    if events.lstrip().startswith("{"):
        lines: Iterable[str] = [events]
    elif events == "-":
        lines = sys.stdin
    else:
        lines = open(events, encoding="utf-8")  # noqa: SIM115 - read to its end below
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield read_object(line)
            except ValueError as error:
                raise TableError(f"{'' if events.startswith('{') else events}, line {number}: {error}") from None


def _batches(events: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    while batch := list(islice(events, BATCH)):
        yield batch
