"""``tamis peer``: one peer of a network without brokers, in this process."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tamis.cli.options import Choice, Least, Metrics, Most, Split, examples, read_schema

if TYPE_CHECKING:
    from tamis.runtime.peer.process import PeerProcess

__all__ = ["EPILOG", "peer"]

EPILOG = examples(
    "tamis peer --schema quakes.json --port 4000 --subscribe 'mag >= 5'",
    "tamis peer --schema quakes.json --join tcp://127.0.0.1:4000 --subscribe 'depth < 70'",
    "tamis peer --schema quakes.json --join tcp://127.0.0.1:4000 < events.jsonl",
    "openssl rand -hex 32 > peers.token",
    "tamis peer --schema quakes.json --host 10.0.0.7 --port 4000 --token-file peers.token "
    "--tls-certificate peer.pem --tls-key peer.key --tls-authority peers.pem",
)

_TOKEN_VARIABLE = "TAMIS_PEER_TOKEN"


def _checked_url(url: str | None) -> str | None:
    """Refuse a bad address while the command line is parsed, before any file is read."""
    from tamis.runtime.peer.address import address_of

    return None if url is None else address_of(url)


def peer(
    schema: Annotated[Path, typer.Option(metavar="FILE", help="The schema as JSON; the same at every peer.")],
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port to listen on; any free one by default.")] = 0,
    host: Annotated[str, typer.Option(help="The address to listen on, by which others reach it.")] = "127.0.0.1",
    join: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            callback=_checked_url,
            help="Any peer of the network; without it, this peer starts a new network.",
        ),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=f"The token that all peers share; {_TOKEN_VARIABLE} otherwise."),
    ] = None,
    tls_certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The certificate of this peer, for its host.")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(metavar="FILE", help="The key of the certificate.")] = None,
    tls_authority: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The authority that signs the certificates of all peers; each peer must show one."
        ),
    ] = None,
    subscribe: Annotated[
        list[str] | None, typer.Option(metavar="FILTER", help="A filter to subscribe to; may be repeated.")
    ] = None,
    round_seconds: Annotated[float, typer.Option(min=0.01, help="How often it checks its place in the tree.")] = 1.0,
    least: Least = 5,
    most: Most = 10,
    split: Split = "quadratic",
    choice: Choice = "",
    metrics: Metrics = None,
    seconds: Annotated[
        float | None, typer.Option(min=0, help="Stop after this many seconds; by default when interrupted.")
    ] = None,
) -> None:
    """Run a peer of the overlay: join the tree, publish events from standard input, print those that match.

    Events are read from the standard input, one JSON object per line. What is delivered is printed as JSON lines:
    {"event": ..., "subscriptions": [...]}; the ids are the numbers of --subscribe, from 0. The first line tells the
    address that others can join. A peer that other machines can reach needs TLS and a token, or it does not start.
    --least, --most, --split and --choice are the same at every peer; one with others is refused.
    """
    import asyncio
    import contextlib

    from tamis.cli.screen import errors
    from tamis.overlay.seat import Shape
    from tamis.runtime.extra import demand_server
    from tamis.runtime.peer.process import PeerProcess
    from tamis.runtime.peer.security import PeerSecurity

    if metrics is not None:
        demand_server("tamis peer --metrics")
    loaded_schema = read_schema(schema)
    assert loaded_schema is not None
    security = PeerSecurity(_token(token_file), tls_certificate, tls_key, tls_authority)
    security.check(host)
    process = PeerProcess(
        loaded_schema,
        host=host,
        port=port,
        join=join,
        shape=Shape(least, most, split, choice),
        round_seconds=round_seconds,
        security=security,
        report=errors().say,
    )
    for text in subscribe or []:
        process.content.compile(text)  # report a bad filter before the peer joins
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_live(process, subscribe or [], seconds, metrics))


def _token(path: Path | None) -> str:
    """Return the token of a file or of the environment; "" without one."""
    import os

    from tamis.errors import ModelError

    if path is None:
        return os.environ.get(_TOKEN_VARIABLE, "")
    try:
        token = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"{path}: no token can be read: {getattr(error, 'strerror', None) or error}") from None
    if not token:
        raise ModelError(f"{path}: the file is empty; make a token with openssl rand -hex 32")
    return token


async def _live(process: PeerProcess, filters: list[str], seconds: float | None, metrics: int | None) -> None:
    from tamis.runtime.metrics import serving_metrics
    from tamis.runtime.peer.process import counts_of

    await process.start()
    try:
        with serving_metrics(lambda: counts_of(process), {"peer": process.name}, metrics) as port:
            _say({"peer": f"tcp://{process.name}"} | ({} if port is None else {"metrics": port}))
            await _take_part(process, filters, seconds)
    finally:
        await process.stop()


async def _take_part(process: PeerProcess, filters: list[str], seconds: float | None) -> None:
    """Subscribe, publish and print deliveries until the time has come; then leave the tree."""
    import asyncio
    import contextlib

    try:
        await _find_contact(process)
        for number, text in enumerate(filters):
            process.subscribe(text, id=number)
        work = asyncio.gather(_publish_input(process), _print_deliveries(process), process.ended())
        with contextlib.suppress(TimeoutError):  # its time has come
            await asyncio.wait_for(work, seconds)
    finally:
        for number in range(len(filters)):
            process.unsubscribe(number)
        await asyncio.sleep(0.05)  # let the last words out


async def _find_contact(process: PeerProcess) -> None:
    from tamis.cli.screen import errors

    if not await process.finds_contact():
        errors().say(f"no answer from tcp://{process.contact} yet: trying again every round; is the address right?")


async def _publish_input(process: PeerProcess) -> None:
    """Publish each line of the standard input; a thread reads it, which is forgotten when the peer stops."""
    import asyncio
    import itertools
    import sys
    import threading

    from tamis.errors import ModelError, TableError
    from tamis.files.strict_json import read_object

    loop, lines = asyncio.get_running_loop(), asyncio.Queue[str](1000)

    def read() -> None:
        for line in sys.stdin:
            asyncio.run_coroutine_threadsafe(lines.put(line), loop).result()

    threading.Thread(target=read, daemon=True).start()
    for number in itertools.count(1):
        line = await lines.get()
        await process.room()
        try:
            if line.strip():
                process.publish(read_object(line))
        except (ModelError, ValueError) as error:
            raise TableError(f"line {number} of the standard input: {error}") from None


async def _print_deliveries(process: PeerProcess) -> None:
    import asyncio

    async for event, ids in process.deliveries():  # in a thread: a slow reader must not stop the peer's rounds
        await asyncio.to_thread(_say, {"event": event, "subscriptions": ids})


def _say(row: dict[str, object]) -> None:
    import sys

    from tamis.cli.screen import write_json_lines

    write_json_lines([row])
    sys.stdout.flush()
