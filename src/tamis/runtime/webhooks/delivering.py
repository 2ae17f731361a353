"""Runs the webhooks of a broker: each is a reader of its subscription's log, as any other (promise G25).

A reader acknowledges what its endpoint has taken. Whatever ends it, the next one goes on behind that.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import ssl
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

import msgspec

from tamis.errors import ModelError, TamisError
from tamis.node.effects import Link
from tamis.routing import messages as m
from tamis.routing.webhooks.registration import PutWebhook, Webhook
from tamis.routing.webhooks.rules import WebhookRules
from tamis.routing.webhooks.schedule import Attempt, Schedule
from tamis.runtime.broker.driver import Driver
from tamis.runtime.webhooks.calling import CallError, Endpoint, Reply, Resolve, resolve
from tamis.runtime.webhooks.documents import MAX_BODY, write_request

__all__ = ["Deliveries"]

_log = logging.getLogger("tamis")

#: Seconds between two looks at tokens that ended, and at readers that stopped.
LOOK_SECONDS = 1.0

#: Requests of all webhooks that are under way, and threads that ask name servers.
MOST_REQUESTS, RESOLVERS = 256, 4

#: The status of an endpoint that was removed (410 Gone), and those of an endpoint that is busy.
REMOVED, TOO_MANY, UNAVAILABLE = 410, 429, 503


@dataclass
class _Shared:
    """What all readers of a broker use."""

    driver: Driver
    rules: WebhookRules
    tls: ssl.SSLContext | None
    resolve: Resolve
    slots: asyncio.Semaphore
    #: Requests, those that failed, and messages that arrived.
    counts: Counter[str] = field(default_factory=Counter)


class Deliveries:
    """The webhooks of one broker; ``may_go_on`` says whether one may that was made with a token."""

    def __init__(self, driver: Driver, rules: WebhookRules, may_go_on: Callable[[str], bool]) -> None:
        self._driver = driver
        self._rules = rules
        self._may_go_on = may_go_on
        self._changed = asyncio.Event()
        self._readers: dict[Link, _Reader] = {}
        self._tls = _read_authorities(rules) if rules.hosts else None
        self._shared: _Shared | None = None

    @property
    def all(self) -> Mapping[Link, Webhook]:
        """Every webhook, by the link of its subscription."""
        return self._driver.machine.node.core.registry.webhooks.all

    @property
    def counts(self) -> Mapping[str, int]:
        """``requests``, ``failures`` among them, and ``deliveries`` of messages, since the broker was started."""
        return Counter[str]() if self._shared is None else self._shared.counts

    @property
    def n_suspended(self) -> int:
        """How many webhooks are suspended."""
        return sum(bool(hook.suspended) for hook in self.all.values())

    def failures_of(self, link: Link) -> tuple[int, str]:
        """Return how many requests failed since the last that did not, and why the last one failed."""
        reader = self._readers.get(link)
        if reader is None or reader.is_done or reader.hook != self.all.get(link):
            return 0, ""
        return reader.schedule.failures, reader.problem

    def look(self) -> None:
        """Take note of a change soon."""
        self._changed.set()

    async def run(self) -> None:
        """Deliver as long as the broker runs."""
        threads = ThreadPoolExecutor(RESOLVERS, "webhook names")
        try:
            self._shared = self._share(threads)
            while True:
                self._changed.clear()
                await self._reconcile(self._shared)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_SECONDS):
                        await self._changed.wait()
        finally:
            for reader in self._readers.values():
                reader.stop()
            threads.shutdown(wait=False, cancel_futures=True)

    def _share(self, threads: ThreadPoolExecutor) -> _Shared:
        loop = asyncio.get_running_loop()
        return _Shared(
            self._driver,
            self._rules,
            self._tls,
            lambda host, port: resolve(host, port, lambda ask: loop.run_in_executor(threads, ask)),
            asyncio.Semaphore(MOST_REQUESTS),
        )

    async def _reconcile(self, shared: _Shared) -> None:
        """Start and stop readers, so that there is one for each webhook that is not suspended."""
        for link, reader in list(self._readers.items()):
            hook = self.all.get(link)
            if hook is None or hook != reader.hook or hook.suspended or reader.is_done:
                reader.stop()
                del self._readers[link]
        for link, hook in list(self.all.items()):
            if hook.suspended:
                continue
            if hook.digest and not self._may_go_on(hook.digest):
                await suspend(self._driver, link, hook, "the token that it was made with was revoked or has expired")
            elif link not in self._readers:
                self._readers[link] = _Reader(shared, link, hook)


class _Reader:
    """Sends the messages of one subscription."""

    def __init__(self, shared: _Shared, link: Link, hook: Webhook) -> None:
        self.hook = hook
        self.problem = ""
        #: What an endpoint answered that was removed.
        self._removed = ""
        self._shared = shared
        self._link = link
        acknowledged = shared.driver.view.stream(link).acknowledged
        batch = 1 if hook.format == "binary" else hook.batch
        self.schedule = Schedule(acknowledged, batch=batch, parallel=hook.parallel, most_failures=hook.max_failures)
        self._news = shared.driver.watch(link)
        self._requests: set[asyncio.Task[None]] = set()
        self._task = asyncio.create_task(self._run())

    @property
    def is_done(self) -> bool:
        return self._task.done()

    def stop(self) -> None:
        """End; what was under way is sent again by the next reader."""
        for task in (self._task, *self._requests):
            task.cancel()
        self._shared.driver.unwatch(self._link, self._news)

    async def _run(self) -> None:
        try:
            endpoint = self._open()
        except TamisError as error:  # the rules changed since: say so, and wait for another URL
            await suspend(self._shared.driver, self._link, self.hook, str(error))
            return
        try:
            while not (self.schedule.is_worn_out or self._removed):
                self._news.clear()
                self._send_due(endpoint)
                await self._wait()
            failures = f"{self.schedule.failures} requests in a row failed, the last: {self.problem}"
            await suspend(self._shared.driver, self._link, self.hook, self._removed or failures)
        except Exception:
            _log.exception("webhook %s stopped; it is started again", self.hook.name)
        finally:
            endpoint.close()

    def _open(self) -> Endpoint:
        shared = self._shared
        return Endpoint(shared.rules.read_url(self.hook.url), shared.rules, shared.tls, shared.resolve)

    async def _wait(self) -> None:
        """Wait for a message, the end of a request, or the moment of the next attempt."""
        moment = self.schedule.wake_at(now := time.monotonic())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if moment is None else moment - now):
                await self._news.wait()

    def _send_due(self, endpoint: Endpoint) -> None:
        stream = self._shared.driver.view.stream(self._link)
        self.schedule.skip_to(stream.acknowledged)
        while (attempt := self.schedule.next(time.monotonic(), stream.last)) is not None:
            if all(map(stream.is_settled, range(attempt.first, attempt.last + 1))):  # dead letters of a former reader
                self.schedule.give_up(attempt)
                continue
            bodies = stream.read(attempt.first - 1, attempt.last - attempt.first + 1)
            bodies = [(number, body) for number, body in bodies if not stream.is_settled(number)]
            fitting = _fitting(bodies)
            if attempt.number == 1 and len(fitting) < len(bodies):
                attempt, bodies = self.schedule.shorten(attempt, fitting[-1][0]), fitting
            task = asyncio.create_task(self._send(endpoint, attempt, bodies))
            self._requests.add(task)
            task.add_done_callback(self._requests.discard)
        if self.schedule.floor > stream.acknowledged:  # what was given up was the last that others waited for
            self._shared.driver.acknowledge(self._link, self.schedule.floor)

    async def _send(self, endpoint: Endpoint, attempt: Attempt, bodies: list[tuple[int, bytes]]) -> None:
        driver, counts = self._shared.driver, self._shared.counts
        reply, start = Reply(0), time.time_ns()
        try:
            async with self._shared.slots:
                start = time.time_ns()
                request = write_request(driver.view, self._link, self.hook, attempt, bodies, start / 1e9, driver.traces)
                reply = await endpoint.post(request, self.hook.timeout)
            self.problem = "" if 200 <= reply.status < 300 else _problem(self.hook, reply)
        except CallError as error:
            self.problem = str(error)
        except Exception as error:  # an error of ours must not stop the webhook silently
            _log.exception("webhook %s", self.hook.name)
            self.problem = f"the broker could not write the request: {type(error).__name__}"
        counts["requests"] += 1
        if driver.traces is not None:
            driver.traces.note_request(self._link, self.hook.host, bodies, start, reply.status)
        if self.problem:
            counts["failures"] += 1
            self._fail(attempt, bodies, reply)
        else:
            counts["deliveries"] += len(bodies)
            driver.acknowledge(self._link, self.schedule.succeed(attempt))
        if reply.status == REMOVED:
            self._removed = self.problem
        self._news.set()

    def _fail(self, attempt: Attempt, bodies: list[tuple[int, bytes]], reply: Reply) -> None:
        """Try messages again, or put one that the endpoint refused too often into the dead letters.

        A request with several messages does not say which of them is refused: each is tried by itself then.
        """
        driver, now, chance = self._shared.driver, time.monotonic(), random.random()
        has_limits = _is_refusal(reply) and _have_limits(driver, self._link, bodies)
        if has_limits and attempt.last > attempt.first:
            self.schedule.split(attempt, now, chance, reply.pause)
            return
        self.schedule.fail(attempt, now, chance, reply.pause)
        if has_limits:
            driver.machine.failing.count(self._link, [attempt.first], partial(self._buried, attempt))

    def _buried(self, attempt: Attempt, worn: tuple[int, ...]) -> None:
        if worn:
            _log.warning("webhook %s: message %d is a dead letter: %s", self.hook.name, attempt.first, self.problem)
            self.schedule.give_up(attempt)
            self._news.set()


def _is_refusal(reply: Reply) -> bool:
    """Whether an endpoint refuses these messages; an endpoint that is busy or was removed refuses all messages."""
    return reply.status not in (0, TOO_MANY, UNAVAILABLE, REMOVED)


def _have_limits(driver: Driver, link: Link, bodies: list[tuple[int, bytes]]) -> bool:
    """Whether the number of refusals is limited for any message of a request."""
    messages = (m.decode(body, link) for _, body in bodies)
    registry = driver.machine.node.core.registry
    return any(isinstance(message, m.Delivery) and registry.most_deliveries(link, message) for message in messages)


def _read_authorities(rules: WebhookRules) -> ssl.SSLContext:
    """Return the context for connections to endpoints; `ModelError` when its file cannot be read."""
    try:
        return ssl.create_default_context(cafile=rules.ca_file or None)
    except OSError as error:
        raise ModelError(f"[webhooks] ca_file {rules.ca_file}: {error.strerror or error}") from None


async def suspend(driver: Driver, link: Link, hook: Webhook, reason: str) -> None:
    """Suspend a webhook, unless it was changed meanwhile."""
    namespace = next(iter(driver.machine.node.core.registry.namespaces_of(link)), "")
    subject = str(msgspec.json.decode(link.removeprefix(f"s:{namespace}:"))) if namespace else ""
    after = msgspec.structs.replace(hook, suspended=reason)
    change = PutWebhook(link, "webhook suspend", hook, after, subject, namespace, None, broker=driver.view.name)
    done = await driver.ask(change)
    if done is True:
        _log.warning("webhook %s to %s is suspended: %s", hook.name, hook.host, reason)


def _fitting(bodies: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    """Return the first messages that fit into a request; one always does."""
    size = 0
    for count, (_, body) in enumerate(bodies):
        size += len(body)
        if size > MAX_BODY and count:
            return bodies[:count]
    return bodies


def _problem(hook: Webhook, reply: Reply) -> str:
    redirect = "; redirects are not followed" if 300 <= reply.status < 400 else ""
    return f"{hook.host} answered {reply.status}{redirect}"
