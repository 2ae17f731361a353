"""What a webhook sends next, when it tries again, and when it gives up. No clock, no socket, no chance.

A webhook reads the log of its subscription from the first message that is not acknowledged. With ``parallel = 1``
there is one request at a time, so messages arrive in order. With more, up to that many requests are under way, and the
log is acknowledged as far as everything before was delivered. Nothing of this is on disk: after a crash a new schedule
begins behind what was acknowledged, and what was delivered beyond that is delivered again.

A failure makes two pauses: one for the request, which is tried again with the same messages, and one for the endpoint.
While the endpoint fails, one request at a time asks whether it is back, so a dead endpoint is not flooded. Requests
that were under way together count as one failure. A request of parallel ones that fails alone, because its messages
cannot be handled there, waits by itself while others pass.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

__all__ = ["Attempt", "Schedule"]

#: Seconds before a second attempt, doubled with each, and at most.
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 600.0

#: Messages behind the first undelivered one that may be under way or delivered.
WINDOW = 4_096


@dataclass(frozen=True)
class Attempt:
    """A request with the messages from ``first`` to ``last``; ``number`` counts attempts, ``round`` failures before."""

    first: int
    last: int
    number: int = 1
    round: int = 0


class Schedule:
    """The requests of one webhook, which begins behind the message ``floor``.

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
        self._window = max(WINDOW, 4 * batch * parallel)
        self._begun = floor
        self._under_way: set[int] = set()
        #: ``{first: (attempt, moment)}``: what is tried again, and not before that moment.
        self._retries: dict[int, tuple[Attempt, float]] = {}
        #: ``{first: last}`` of what was delivered behind something that was not.
        self._delivered: dict[int, int] = {}
        self._round = 0
        self._not_before = 0.0

    @property
    def is_worn_out(self) -> bool:
        """Whether the endpoint failed too often to go on."""
        return self.failures >= self._most_failures

    def next(self, now: float, last: int) -> Attempt | None:
        """Return a request to send now, from a log that ends at ``last``; None: there is none to send."""
        most = 1 if self.failures else self._parallel
        if len(self._under_way) >= most or self.is_worn_out or now < self._not_before:
            return None
        attempt = self._ripe(now)
        if self._parallel == 1:
            attempt = attempt if self._retries else self._fresh(last)
        elif attempt is None or self.failures:  # whether the endpoint is back, other messages tell better
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
        """Take note that the messages of a request arrived; return up to where the log may be acknowledged."""
        self._under_way.discard(attempt.first)
        self.failures, self._not_before = 0, 0.0
        self._delivered[attempt.first] = attempt.last
        return self.skip_to(self.floor)

    def fail(self, attempt: Attempt, now: float, chance: float, pause: float = 0.0) -> None:
        """Take note that a request failed; ``chance`` in [0, 1) spreads retries, ``pause`` is the endpoint's wish."""
        self._under_way.discard(attempt.first)
        again = replace(attempt, number=attempt.number + 1)
        self._retries[attempt.first] = (again, now + _pause(attempt.number, chance))
        if attempt.round == self._round:
            self._round += 1
            self.failures += 1
            self._not_before = now + max(_pause(self.failures, chance), min(pause, LONGEST_PAUSE))

    def skip_to(self, acknowledged: int) -> int:
        """Take note that everything up to a message was acknowledged, by another reader perhaps; return the floor."""
        self.floor = max(self.floor, acknowledged)
        while (beyond := [first for first in self._delivered if first <= self.floor + 1]) != []:
            self.floor = max(self.floor, *(self._delivered.pop(first) for first in beyond))
        for first in [first for first, (attempt, _) in self._retries.items() if attempt.last <= self.floor]:
            del self._retries[first]
        self._begun = max(self._begun, self.floor)
        return self.floor

    def wake_at(self, now: float) -> float | None:
        """Return the next moment at which `next` may have a request without news; None: there is no such moment."""
        if len(self._under_way) >= (1 if self.failures else self._parallel) or self.is_worn_out:
            return None
        moments = [max(moment, self._not_before) for _, moment in self._retries.values()]
        if self._parallel > 1:
            moments.append(self._not_before)
        return min((moment for moment in moments if moment > now), default=None)

    def _ripe(self, now: float) -> Attempt | None:
        ripe = [attempt for attempt, moment in self._retries.values() if moment <= now]
        return min(ripe, key=lambda attempt: attempt.first, default=None)

    def _fresh(self, last: int) -> Attempt | None:
        first = self._begun + 1
        last = min(last, self._begun + self._batch)
        return Attempt(first, last) if first <= last <= self.floor + self._window else None


def _pause(failures: int, chance: float) -> float:
    """Return seconds that double with each failure, of which up to a half is left out by chance.

    >>> [_pause(n, 0.0) for n in (1, 2, 3, 99)]
    [1.0, 2.0, 4.0, 600.0]
    """
    return min(FIRST_PAUSE * 2.0 ** min(failures - 1, 60), LONGEST_PAUSE) * (1.0 - 0.5 * chance)
