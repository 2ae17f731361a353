"""What a webhook sends next, when it retries, and when it gives up. No clock, no socket, no random numbers.

A webhook reads the log of its subscription from the first message that is not acknowledged. With ``parallel = 1``
there is one request at a time, so messages arrive in order. With more, up to that many requests are under way, and the
log is acknowledged up to the first message that is not delivered. Nothing of this is on disk: after a crash a new
schedule begins after the last acknowledged message, and messages delivered beyond it are delivered again.

A failure causes two pauses: one for the request, which is retried with the same messages, and one for the endpoint.
While the endpoint fails, it gets one request at a time, so a dead endpoint is not flooded. Requests that were under way
together count as one failure. If a single one of several parallel requests fails, because the endpoint cannot handle
its messages, only that request waits while others are sent.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

__all__ = ["Attempt", "Schedule"]

#: Seconds before a second attempt, doubled with each, and at most.
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 600.0

#: Messages after the first undelivered one that may be under way or delivered.
WINDOW = 4_096


@dataclass(frozen=True)
class Attempt:
    """A request with the messages ``first`` to ``last``; ``number`` counts its attempts, ``round`` failures before."""

    first: int
    last: int
    number: int = 1
    round: int = 0


class Schedule:
    """The requests of one webhook, which begins after the message ``floor``.

    >>> schedule = Schedule(0, batch=2)
    >>> schedule.next(now=0.0, last=3), schedule.next(now=0.0, last=3)
    (Attempt(first=1, last=2, number=1, round=0), None)
    >>> schedule.succeed(Attempt(1, 2)), schedule.next(now=0.0, last=3)
    (2, Attempt(first=3, last=3, number=1, round=0))
    """

    def __init__(self, floor: int, *, batch: int = 1, parallel: int = 1, most_failures: int = 20) -> None:
        #: Everything up to this message is delivered.
        self.floor = floor
        #: Failures since the last success.
        self.failures = 0
        self._batch = batch
        self._parallel = parallel
        self._most_failures = most_failures
        self._begun = floor
        self._under_way: set[int] = set()
        #: ``{first: (attempt, moment)}``: attempts to retry, each not before its moment.
        self._retries: dict[int, tuple[Attempt, float]] = {}
        #: ``{first: last}`` of messages delivered after an undelivered one.
        self._delivered: dict[int, int] = {}
        self._round = 0
        #: The end of the pause after failures in a row, and of the longest one that the endpoint has asked for.
        self._not_before = self._requested_end = 0.0

    @property
    def is_worn_out(self) -> bool:
        """Whether the endpoint failed too often to go on."""
        return self.failures >= self._most_failures

    def next(self, now: float, last: int) -> Attempt | None:
        """Return a request to send now, from a log that ends at ``last``; None: there is none to send."""
        limit = 1 if self.failures else self._parallel
        if len(self._under_way) >= limit or self.is_worn_out or now < self._pause_end:
            return None
        attempt = self._ripe(now)
        if self._parallel == 1:  # in order: retries go first, the lowest number before the others
            attempt = self._fresh(last) if not self._retries else attempt if self._is_first(attempt) else None
        elif attempt is None or self.failures:  # other messages show better whether the endpoint is back
            attempt = self._fresh(last) or attempt
        if attempt is not None:
            self._retries.pop(attempt.first, None)
            self._under_way.add(attempt.first)
            self._begun = max(self._begun, attempt.last)
            attempt = replace(attempt, round=self._round)
        return attempt

    def shorten(self, attempt: Attempt, last: int) -> Attempt:
        """Return a first attempt that ends earlier, because its messages are large; call it before any other `next`."""
        self._begun = last
        return replace(attempt, last=last)

    def succeed(self, attempt: Attempt) -> int:
        """Note that the messages of a request arrived; return the number up to which the log may be acknowledged."""
        self._under_way.discard(attempt.first)
        self.failures, self._not_before = 0, 0.0
        self._delivered[attempt.first] = attempt.last
        return self.skip_to(self.floor)

    def fail(self, attempt: Attempt, now: float, chance: float, pause: float = 0.0) -> None:
        """Note that a request failed; ``chance`` in [0, 1) spreads retries, ``pause`` is the endpoint's delay."""
        self._under_way.discard(attempt.first)
        retry = replace(attempt, number=attempt.number + 1)
        self._retries[attempt.first] = (retry, now + _pause(attempt.number, chance))
        if pause:
            self._requested_end = max(self._requested_end, now + min(pause, LONGEST_PAUSE))
        if attempt.round == self._round:
            self._round += 1
            self.failures += 1
            self._not_before = now + _pause(self.failures, chance)

    def split(self, attempt: Attempt, now: float, chance: float, pause: float = 0.0) -> None:
        """Note that a request with several messages failed because of one of them: try each by itself."""
        self.fail(attempt, now, chance, pause)
        retry, moment = self._retries.pop(attempt.first)
        for number in range(attempt.first, attempt.last + 1):
            self._retries[number] = (replace(retry, first=number, last=number), moment)

    def give_up(self, attempt: Attempt) -> int:
        """Note that the messages of a request are not sent, or not again; return as `succeed` does."""
        self._under_way.discard(attempt.first)
        self._retries.pop(attempt.first, None)
        self._delivered[attempt.first] = attempt.last
        return self.skip_to(self.floor)

    def skip_to(self, acknowledged: int) -> int:
        """Note that everything up to a message was acknowledged, perhaps by another reader; return the floor."""
        self.floor = max(self.floor, acknowledged)
        while (beyond := [first for first in self._delivered if first <= self.floor + 1]) != []:
            self.floor = max(self.floor, *(self._delivered.pop(first) for first in beyond))
        for first in [first for first, (attempt, _) in self._retries.items() if attempt.last <= self.floor]:
            del self._retries[first]
        self._begun = max(self._begun, self.floor)
        return self.floor

    def wake_at(self, now: float) -> float | None:
        """Return the next moment at which `next` may return a request without further input; None: there is none."""
        if len(self._under_way) >= (1 if self.failures else self._parallel) or self.is_worn_out:
            return None
        moments = [max(moment, self._pause_end) for _, moment in self._retries.values()]
        if self._parallel > 1 or not moments:  # new messages may wait for the end of the pause
            moments.append(self._pause_end)
        return min((moment for moment in moments if moment > now), default=None)

    @property
    def _pause_end(self) -> float:
        return max(self._not_before, self._requested_end)

    def _ripe(self, now: float) -> Attempt | None:
        ripe = [attempt for attempt, moment in self._retries.values() if moment <= now]
        return min(ripe, key=lambda attempt: attempt.first, default=None)

    def _is_first(self, attempt: Attempt | None) -> bool:
        """Whether no retry has messages before those of an attempt."""
        return attempt is not None and attempt.first == min(self._retries)

    def _fresh(self, last: int) -> Attempt | None:
        first = self._begun + 1
        last = min(last, self._begun + self._batch)
        window = max(WINDOW, 4 * self._batch * self._parallel)
        return Attempt(first, last) if first <= last <= self.floor + window else None


def _pause(failures: int, chance: float) -> float:
    """Return a pause in seconds that doubles with each failure; ``chance`` shortens it by up to a half.

    >>> [_pause(n, 0.0) for n in (1, 2, 3, 99)]
    [1.0, 2.0, 4.0, 600.0]
    """
    return min(FIRST_PAUSE * 2.0 ** min(failures - 1, 60), LONGEST_PAUSE) * (1.0 - 0.5 * chance)
