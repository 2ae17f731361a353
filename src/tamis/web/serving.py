"""Runs a broker behind its port until it is stopped, or until its disk fails."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import ssl
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from tamis.engine.warm_up import loading_steps
from tamis.errors import DiskFullError, ModelError
from tamis.index.paused_collection import paused_collection
from tamis.routing.edge.limits import IDLE_SECONDS, MAX_PACKET
from tamis.runtime.broker.config import BrokerConfig
from tamis.runtime.broker.cut_off import send_clients_away
from tamis.runtime.broker.driver import Driver
from tamis.runtime.broker.open_broker import open_broker
from tamis.runtime.broker.self_audit import follow_tokens, note_start, note_stop, watch_tokens
from tamis.runtime.broker.sessions import end_sessions
from tamis.runtime.broker.snapshot_subscriptions import follow_snapshot, open_snapshot
from tamis.runtime.broker.tokens import Tokens, tokens_of
from tamis.runtime.long_lived import keep_frozen
from tamis.runtime.stores.opening import open_store
from tamis.runtime.stores.protocol import StandbyStoppedError, Store
from tamis.runtime.stores.retention import TRIM_ROWS
from tamis.web.app import make_app
from tamis.web.port.certificate import follow_certificate
from tamis.web.port.connection_limits import MAX_HEAD, Gate, raise_file_limit, with_limits, with_small_packets
from tamis.web.port.handshakes import with_handshakes
from tamis.web.port.write_deadline import with_write_deadline
from tamis.web.server import Server
from tamis.web.standby import make_standby_app

__all__ = ["serve"]

#: Seconds between two deletions of what is beyond retention.
TRIM_SECONDS = 60.0

#: Seconds between two pings on a WebSocket, and until an unanswered one ends it.
HEARTBEAT_SECONDS = 10.0


async def serve(
    config: BrokerConfig,
    ready: Callable[[str], None] = lambda url: None,
    waits: Callable[[str], None] = lambda url: None,
) -> None:
    """Run a broker; call ``ready`` with its URL when it answers. Raises the error that stopped it, if any.

    A standby calls ``waits`` with its URL first, and serves when the active broker is gone.
    """
    if not config.standby:
        await _run(config, ready)
        return
    listener, end = _listener(config.check()), _EndSignal()
    try:
        if (store := await _stand_by(config, listener, waits, end)) is not None:
            await _run(config, ready, store, listener, end)
    finally:
        listener.close()


async def _run(
    config: BrokerConfig,
    ready: Callable[[str], None],
    store: Store | None = None,
    listener: socket.socket | None = None,
    end: _EndSignal | None = None,
) -> None:
    driver, version = await _open(config, store)
    note_start(driver, config)
    tokens = tokens_of(config)
    if config.store:
        follow_tokens(driver, tokens)
    app = make_app(config, driver, tokens)
    listener = _listener(config) if listener is None else listener
    settings, tls = _settings(config, app)
    server = _Port(settings)
    server.on_shutdown = driver.machine.failing.stop
    tasks = [asyncio.create_task(task) for task in _around(driver, config, version, tokens)]
    tasks += [asyncio.create_task(task) for task in _watches(app.state.server, tls)]
    (end or _EndSignal()).stop(server)
    running = asyncio.create_task(server.serve(sockets=[listener]))
    ready(_url(config, listener))
    try:
        await _end_of(server, running, driver)
    finally:
        server.should_exit = True
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with contextlib.suppress(Exception):
            await running
        await app.state.server.pool.close()
        note_stop(driver)
        await driver.stop()


async def _stand_by(
    config: BrokerConfig, listener: socket.socket, waits: Callable[[str], None], end: _EndSignal
) -> Store | None:
    """Return the store once no other broker has it; None when this process was stopped before."""
    stopped = threading.Event()
    # uvicorn logs each refused WebSocket as an error.
    settings, _ = _settings(config, make_standby_app(config.name), log_level="critical")
    server = _Port(settings)
    end.stop(server)
    # uvicorn closes the socket that it listens on, and this broker needs the port later.
    running = asyncio.create_task(server.serve(sockets=[listener.dup()]))
    waits(_url(config, listener))
    opening = asyncio.create_task(asyncio.to_thread(open_store, config, stopped))
    try:
        await asyncio.wait([running, opening], return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopped.set()
        server.should_exit = server.force_exit = True
        await running
    try:
        return await opening
    except StandbyStoppedError:
        return None


def _url(config: BrokerConfig, listener: socket.socket) -> str:
    scheme = "https" if config.tls_certificate else "http"
    return f"{scheme}://{config.host}:{listener.getsockname()[1]}"


async def _end_of(server: _Port, running: asyncio.Task[None], driver: Driver) -> None:
    """Wait until the port is closed; raises what made the driver fail, if it did."""
    failed = driver.failed
    if failed is not None:
        await asyncio.wait([running, failed], return_when=asyncio.FIRST_COMPLETED)
        if failed.done():
            server.should_exit = server.force_exit = True
            await running
            failed.result()
    await running


async def _open(config: BrokerConfig, store: Store | None) -> tuple[Driver, Path | str | None]:
    """Return a broker with its state from disk and, if it follows snapshots, the version that it opened."""
    with paused_collection():
        driver = open_broker(config, store)
        await driver.start()
        return driver, await open_snapshot(driver, config.snapshot) if config.snapshot else None


class _Port(uvicorn.Server):
    """A server that leaves signals to `serve`: by itself it would end the process before the disk is closed."""

    #: Called before connections are closed.
    on_shutdown: Callable[[], None] = staticmethod(lambda: None)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close all connections; their readers have not failed."""
        self.on_shutdown()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _EndSignal:
    """Stops the server at SIGTERM, also when the signal came before, while a standby loads its state.

    asyncio handles Ctrl-C. Only the main thread receives signals.
    """

    def __init__(self) -> None:
        self._has_come = False
        self._server: uvicorn.Server | None = None

    def stop(self, server: uvicorn.Server) -> None:
        """Let the signal stop ``server``; at once, if the signal has come already."""
        self._server, server.should_exit = server, self._has_come
        with contextlib.suppress(RuntimeError, ValueError):
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self.come)

    def come(self) -> None:
        """Take note of the signal."""
        self._has_come = True
        if self._server is not None:
            self._server.should_exit = True


def _around(
    driver: Driver, config: BrokerConfig, version: Path | str | None, tokens: Tokens
) -> Iterator[Coroutine[Any, Any, None]]:
    """Yield the coroutines that run for as long as the broker does."""
    yield driver.links.keep_connected(driver)
    yield _trim(driver, config)
    yield watch_tokens(driver, tokens, is_shared=bool(config.store))
    yield end_sessions(driver, config.retention)
    if config.store:
        yield send_clients_away(driver)
    yield keep_frozen(driver)
    yield _load_kernels()
    if version is not None:
        yield follow_snapshot(driver, config.snapshot, version)


def _watches(server: Server, tls: ssl.SSLContext | None) -> Iterator[Coroutine[Any, Any, None]]:
    """Yield the coroutines that watch tokens, webhooks, keys and certificates."""
    yield server.visitors.watch()
    yield server.webhooks.run()
    if tls is not None:
        yield follow_certificate(tls, server.config.tls_certificate, server.config.tls_key)
    if server.access.jwt is not None:
        yield server.access.jwt.keys.follow()


def _settings(
    config: BrokerConfig, app: object, log_level: str = "warning"
) -> tuple[uvicorn.Config, ssl.SSLContext | None]:
    """Return the settings of uvicorn and the TLS context; handshakes are done here, for uvicorn does not count them."""
    most = raise_file_limit(config.max_connections)
    gate = Gate(most, min(most, config.max_connections_of_address))
    settings = uvicorn.Config(
        app,  # type: ignore[arg-type]
        log_level=log_level,
        lifespan="off",
        server_header=False,
        proxy_headers=False,  # X-Forwarded-For would choose the address that the audit notes
        http=with_write_deadline(with_limits(H11Protocol, gate)),
        ws=with_write_deadline(with_small_packets(WebSocketsSansIOProtocol, gate)),
        h11_max_incomplete_event_size=MAX_HEAD,
        ws_max_size=MAX_PACKET,
        ws_ping_interval=HEARTBEAT_SECONDS,
        ws_ping_timeout=HEARTBEAT_SECONDS,
        ws_per_message_deflate=False,
        ssl_certfile=config.tls_certificate or None,
        ssl_keyfile=config.tls_key or None,
        timeout_keep_alive=int(IDLE_SECONDS),
        timeout_graceful_shutdown=2,
        access_log=False,
    )
    settings.load()
    tls, settings.ssl = settings.ssl, None
    if tls is not None:
        door = with_handshakes(settings.http_protocol_class, tls, gate)
        settings.http_protocol_class = door  # type: ignore[assignment]  # uvicorn only calls it
    return settings, tls


def _listener(config: BrokerConfig) -> socket.socket:
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    # asyncio turns off Nagle's algorithm only for sockets with this protocol; with it, short answers wait 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((config.host, config.port))
    except OSError as error:
        listener.close()
        raise ModelError(f"port {config.port} of {config.host}: {error.strerror}; choose another with --port") from None
    listener.listen(1024)
    return listener


async def _load_kernels() -> None:
    """Load compiled kernels in a thread, a few at a time: a broker that is stopped meanwhile waits for these only."""
    for load in loading_steps():
        await asyncio.to_thread(load)


async def _trim(driver: Driver, config: BrokerConfig) -> None:
    while True:
        await asyncio.sleep(TRIM_SECONDS)
        driver.run_between_commits(lambda store: _trim_once(driver, store, config, time.time()))


def _trim_once(driver: Driver, store: Store, config: BrokerConfig, now: float) -> None:
    with contextlib.suppress(DiskFullError):  # it is tried again
        if store.trim(now - config.retention, config.retention_bytes) >= TRIM_ROWS:
            driver.run_between_commits(
                lambda store_later: _trim_once(driver, store_later, config, now)
            )  # commits come in between
        store.trim_audit(keep=config.max_audit, before=now - config.audit_retention)
