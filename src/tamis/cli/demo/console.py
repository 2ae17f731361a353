"""``tamis demo console``: a broker with real questions and a replay of real earthquakes, so that its page has life."""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tamis.cli.options import examples

if TYPE_CHECKING:
    from tamis.runtime.client.client import Client
    from tamis.runtime.client.deliveries import ClientSubscription

__all__ = ["EPILOG", "console"]

EPILOG = examples("tamis demo console", "tamis demo console --port 0 --rate 100", "tamis demo console --seconds 30")

#: Earthquakes that are published before the page opens: a dry run has something to ask, and kernels are compiled.
_AT_ONCE = 300


def console(
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")] = 8080,
    rate: Annotated[float, typer.Option(min=0.1, max=1000, help="Earthquakes per second.")] = 10,
    seconds: Annotated[
        float | None, typer.Option(min=0, help="Stop after this many seconds; by default with Ctrl-C.")
    ] = None,
) -> None:
    """Start a broker and its web page: 67 subscriptions, and a week of earthquakes that repeats."""
    from tamis.runtime.extra import demand_server

    demand_server("tamis demo console")
    with tempfile.TemporaryDirectory(prefix="tamis-console-") as directory:
        asyncio.run(_show(port, rate, seconds, Path(directory)))


async def _show(port: int, rate: float, seconds: float | None, directory: Path) -> None:
    from tamis.cli.screen import output
    from tamis.runtime.client.connecting import connect

    async with _broker(port, directory) as url, connect(url, client="demonstration") as client:
        asked = await asyncio.gather(*(client.subscribe(text, id=id) for id, text in _questions()))
        reading = [asyncio.create_task(_read(subscription)) for subscription in asked]
        output().say("Getting ready; the first time on a machine that takes half a minute.", "dim")
        try:
            events = _events()
            await client.publish(events[:_AT_ONCE])
            output().say(f"tamis console: {url}", "bold")
            output().say("67 questions, and a week of earthquakes again and again. Stop with Ctrl-C.", "dim")
            async with asyncio.timeout(seconds):
                await _replay(client, events, rate)
        except TimeoutError:
            pass
        finally:
            for task in reading:
                task.cancel()
            await asyncio.gather(*reading, return_exceptions=True)


@asynccontextmanager
async def _broker(port: int, directory: Path) -> AsyncIterator[str]:
    """Run a broker around a block, which ends with it: at SIGTERM quietly, else by what stopped it."""
    from tamis.runtime.broker.config import BrokerConfig
    from tamis.web.serving import serve

    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    schema = directory / "schema.json"
    schema.write_text(_schema())
    config = BrokerConfig(name="demo", port=port, data=str(directory / "data"), schema=str(schema))
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


def _schema() -> str:
    from tamis.demo.datasets import earthquakes
    from tamis.model.schema import Schema

    return Schema.from_arrow(earthquakes()).to_json()


def _questions() -> list[tuple[str, str]]:
    from tamis.demo.datasets import quake_subscriptions

    return quake_subscriptions()


async def _read(subscription: ClientSubscription) -> None:
    async for delivery in subscription:
        await delivery.ack()


async def _replay(client: Client, events: list[dict[str, Any]], rate: float) -> None:
    """Publish the earthquakes in their order, again and again, after those that were published at once."""
    for event in itertools.cycle(events[_AT_ONCE:] + events[:_AT_ONCE]):
        await client.publish(event)
        await asyncio.sleep(1 / rate)


def _events() -> list[dict[str, Any]]:
    """Return the earthquakes as a publisher writes them."""
    import shapely

    from tamis.demo.datasets import earthquakes

    rows = earthquakes().to_pylist()
    for row in rows:
        row["at"] = row["at"].isoformat()
        row["epicentre"] = shapely.to_wkt(shapely.from_wkb(row["epicentre"]), rounding_precision=6)
    return [{name: value for name, value in row.items() if value is not None} for row in rows]
