"""``tamis demo console``: three linked brokers and a replay of real storms, so that every view of the page has data."""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tamis.cli.options import examples

if TYPE_CHECKING:
    from tamis.model.subscription import SubscriptionId
    from tamis.runtime.broker.config import BrokerConfig
    from tamis.runtime.client.client import Client
    from tamis.runtime.client.deliveries import ClientSubscription

__all__ = ["EPILOG", "console"]

EPILOG = examples("tamis demo console", "tamis demo console --port 0 --rate 100", "tamis demo console --seconds 30")

#: Positions that are published before the page opens: a dry run then has events to search, and kernels are compiled.
_AT_ONCE = 60


def console(
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port of the first page; 0 takes a free one.")] = 8080,
    rate: Annotated[float, typer.Option(min=0.1, max=1000, help="Storm positions per second.")] = 10,
    seconds: Annotated[
        float | None, typer.Option(min=0, help="Stop after this many seconds; by default with Ctrl-C.")
    ] = None,
) -> None:
    """Start three linked brokers with web pages: Atlantic storms are replayed, and counties subscribe to them."""
    from tamis.runtime.extra import demand_server

    demand_server("tamis demo console")
    with tempfile.TemporaryDirectory(prefix="tamis-console-") as directory:
        asyncio.run(_show(port, rate, seconds, Path(directory)))


async def _show(port: int, rate: float, seconds: float | None, directory: Path) -> None:
    from tamis.cli.screen import output
    from tamis.demo.storm_network import COASTS, HUB, coast_questions, people_questions, storm_events, storm_schema

    output().say("Loading storms and 1,200 county subscriptions: some seconds, the first time a minute ...", "dim")
    events = storm_events()  # before any broker runs: reading would hold their event loop
    questions = {coast: coast_questions(coast) for coast in COASTS}
    schema = directory / "schema.json"
    schema.write_text(storm_schema())
    async with AsyncExitStack() as stack:
        hub = await stack.enter_async_context(_broker(_config(HUB, port, schema, dict.fromkeys(COASTS, ""))))
        urls = {}
        for coast in COASTS:
            urls[coast] = await stack.enter_async_context(_broker(_config(coast, 0, schema, {HUB: hub})))
        publisher = await stack.enter_async_context(_subscribed(hub, people_questions()))
        for coast, filters in questions.items():
            await stack.enter_async_context(_subscribed(urls[coast], filters))
        await publisher.publish(events[:_AT_ONCE])
        output().say(f"tamis console: {hub}", "bold")
        for coast, states in COASTS.items():
            output().say(f"  linked broker {coast}: {urls[coast]} (counties in {', '.join(states)})", "dim")
        output().say("Storms since 2004, replayed from August 2005 on. Stop with Ctrl-C.", "dim")
        try:
            async with asyncio.timeout(seconds):
                await _replay(publisher, events, rate)
        except TimeoutError:
            pass


def _config(name: str, port: int, schema: Path, links: Mapping[str, str]) -> BrokerConfig:
    """Return the configuration of one broker, whose data lies beside ``schema``; a neighbour without a URL dials it."""
    from tamis.runtime.broker.config import BrokerConfig, LinkConfig

    neighbours = tuple(LinkConfig(name=neighbour, url=url) for neighbour, url in links.items())
    return BrokerConfig(name=name, port=port, data=str(schema.parent / name), schema=str(schema), links=neighbours)


@asynccontextmanager
async def _broker(config: BrokerConfig) -> AsyncIterator[str]:
    """Run a broker around a block and yield its URL. The block ends with the broker: at SIGTERM, or by its error."""
    from tamis.web.serving import serve

    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    running = asyncio.create_task(serve(config, ready.set_result))
    try:
        waiting: list[asyncio.Future[Any]] = [running, ready]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
        async with _ending_with(running):
            yield await ready
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@asynccontextmanager
async def _ending_with(running: asyncio.Task[None]) -> AsyncIterator[None]:
    """End a block when a task ends, quietly or with what the task raised."""
    block = asyncio.current_task()
    assert block is not None

    def end(_: object) -> None:
        block.cancel()

    running.add_done_callback(end)
    try:
        yield
    except asyncio.CancelledError:
        if not running.done():  # cancelled from outside
            raise
        block.uncancel()
        running.result()
    finally:
        running.remove_done_callback(end)


@asynccontextmanager
async def _subscribed(url: str, questions: Mapping[SubscriptionId, str]) -> AsyncIterator[Client]:
    """Connect a client that subscribes to ``questions`` and acknowledges what it gets, around a block."""
    from tamis.runtime.client.connecting import connect

    async with connect(url, client="demonstration") as client:
        subscriptions = await client.subscribe_many(questions)
        readers = [asyncio.create_task(_read(subscription)) for subscription in subscriptions]
        try:
            yield client
        finally:
            for reader in readers:
                reader.cancel()
            await asyncio.gather(*readers, return_exceptions=True)


async def _read(subscription: ClientSubscription) -> None:
    async for delivery in subscription:
        await delivery.ack()


async def _replay(client: Client, events: list[dict[str, Any]], rate: float) -> None:
    """Publish the positions in order, in a loop, starting after those that were published at once."""
    for event in itertools.cycle(events[_AT_ONCE:] + events[:_AT_ONCE]):
        await client.publish(event)
        await asyncio.sleep(1 / rate)
