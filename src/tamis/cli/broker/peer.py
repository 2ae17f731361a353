"""``tamis peer``: one peer of a network without brokers, in this process."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tamis.cli.options import examples, read_schema

if TYPE_CHECKING:
    from tamis.runtime.peer_process import PeerProcess

__all__ = ["EPILOG", "peer"]

EPILOG = examples(
    "tamis peer --schema quakes.json --port 4000 --subscribe 'mag >= 5'",
    "tamis peer --schema quakes.json --join tcp://127.0.0.1:4000 --subscribe 'depth < 70'",
    "tamis peer --schema quakes.json --join tcp://127.0.0.1:4000 < events.jsonl",
)


def _checked_url(url: str | None) -> str | None:
    """Refuse what is no address while the command line is read: before anything is asked for that is not there."""
    from tamis.runtime.peer_process import address_of

    return None if url is None else address_of(url)


def peer(
    schema: Annotated[Path, typer.Option(metavar="FILE", help="The schema as JSON; the same at every peer.")],
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port to listen on; any free one by default.")] = 0,
    host: Annotated[str, typer.Option(help="The address to listen on, by which others reach it.")] = "127.0.0.1",
    join: Annotated[
        str | None,
        typer.Option(
            metavar="URL", callback=_checked_url, help="Any peer of the network; without, this one begins a new one."
        ),
    ] = None,
    subscribe: Annotated[
        list[str] | None, typer.Option(metavar="FILTER", help="What to ask for; several times for several.")
    ] = None,
    round_seconds: Annotated[float, typer.Option(min=0.01, help="How often it checks its place in the tree.")] = 1.0,
    seconds: Annotated[
        float | None, typer.Option(min=0, help="Stop after so long; by default when interrupted.")
    ] = None,
) -> None:
    """Be a peer: find a place in the tree by what you ask for, publish what comes in, print what matches.

    Events are read from the standard input, one JSON object per line. What is delivered is printed as JSON lines:
    {"event": ..., "subscriptions": [...]}; the ids are the numbers of --subscribe, from 0. The first line tells the
    address that others can join.
    """
    import asyncio
    import contextlib

    from tamis.runtime.peer_process import PeerProcess

    known = read_schema(schema)
    assert known is not None
    process = PeerProcess(known, host=host, port=port, join=join, round_seconds=round_seconds)
    for text in subscribe or []:
        process.content.compile(text)  # what is wrong is said before anybody can join
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_live(process, subscribe or [], seconds))


async def _live(process: PeerProcess, filters: list[str], seconds: float | None) -> None:
    import asyncio

    from tamis.cli.screen import errors

    await process.start()
    _say({"peer": f"tcp://{process.name}"})
    if not await process.finds_contact():
        errors().say(f"nobody answers at tcp://{process.contact} yet: trying again every round; is the address right?")
    for number, text in enumerate(filters):
        process.subscribe(text, id=number)
    reading = asyncio.create_task(_publish_input(process))
    printing = asyncio.create_task(_print_deliveries(process))
    try:
        await asyncio.wait_for(asyncio.gather(reading, printing), seconds)
    except TimeoutError:
        pass  # its time has come
    finally:
        for number in range(len(filters)):
            process.unsubscribe(number)
        await asyncio.sleep(0.05)  # let the last words out
        await process.stop()


async def _publish_input(process: PeerProcess) -> None:
    """Publish each line of the standard input; a thread reads it, which is forgotten when the peer stops."""
    import asyncio
    import itertools
    import sys
    import threading

    from tamis.errors import ModelError, TableError
    from tamis.files.strict_json import read_object

    loop, lines = asyncio.get_running_loop(), asyncio.Queue[str]()

    def read() -> None:
        for line in sys.stdin:
            loop.call_soon_threadsafe(lines.put_nowait, line)

    threading.Thread(target=read, daemon=True).start()
    for number in itertools.count(1):
        line = await lines.get()
        try:
            if line.strip():
                process.publish(read_object(line))
        except (ModelError, ValueError) as error:
            raise TableError(f"line {number} of the standard input: {error}") from None


async def _print_deliveries(process: PeerProcess) -> None:
    async for event, ids in process.deliveries():
        _say({"event": event, "subscriptions": ids})


def _say(row: dict[str, object]) -> None:
    import sys

    from tamis.cli.screen import write_json_lines

    write_json_lines([row])
    sys.stdout.flush()
