"""Attack: one principal sends costly requests without a pause, as many at a time as it can.

The rule that divides the event loop is run on a clock that only work moves, so that shares are exact (promise S26).
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections import Counter

import pytest

from tamis.node.frames import Frame, encode_frame
from tamis.runtime.packets import join_frames
from tamis.web.endpoints.websocket import _acknowledges_only
from tamis.web.work.pacing import MOST_REST, MOST_RESTING, REST, SLICE_SECONDS, Pace, Shares


class Loop:
    """One event loop in virtual time: tasks compute in pieces, one after the other, and rest as `Shares` says."""

    def __init__(self) -> None:
        self.shares = Shares()
        self.now = 0.0
        self.used: Counter[str] = Counter()
        #: The longest time that a piece of a principal was ready and did not run.
        self.waited: Counter[str] = Counter()
        self._ready: list[tuple[float, int, str, float, float]] = []
        self._number = 0

    def add(self, principal: str, piece: float, pause: float, at: float = 0.0) -> None:
        """Have a task compute ``piece`` again and again; a task that computes less than a slice pauses by itself."""
        self._number += 1
        heapq.heappush(self._ready, (at, self._number, principal, piece, pause))

    def run(self, until: float) -> None:
        while self.now < until:
            at, _, principal, piece, pause = heapq.heappop(self._ready)
            self.now = max(self.now, at)
            if rest := self.shares.rest(principal, self.now):  # as `Pace.begin` does
                self.add(principal, piece, pause, self.now + rest)
                continue
            self.waited[principal] = max(self.waited[principal], self.now - at)
            self.shares.see(principal, self.now)
            self.now += piece
            self.used[principal] += piece
            if piece > SLICE_SECONDS:
                self.shares.spend(principal, piece, self.now)
            self.add(principal, piece, pause, self.now + pause)


def crowd(n_requests: int) -> Loop:
    """A hundred tenants compute 1 ms each half second, one computes 20 ms in each of many requests at a time."""
    loop = Loop()
    for number in range(100):
        loop.add(f"t{number}", 0.001, 0.5, at=number / 200)
    for _ in range(n_requests):
        loop.add("eve", 0.02, 0.0)
    return loop


def test_a_hostile_principal_takes_its_share_and_no_more() -> None:
    for n_requests in (1, 10, 200):
        loop = crowd(n_requests)
        loop.run(60.0)
        share = loop.used["eve"] / loop.now
        assert share <= 1.01 / (1 + REST)
        assert share >= 0.8 / (1 + REST)  # it is served
        # Others wait for one of its pieces and for some of one another's, never for two of its pieces.
        assert max(loop.waited[f"t{number}"] for number in range(100)) < 0.03


def test_a_principal_that_is_alone_does_not_rest() -> None:
    loop = Loop()
    for _ in range(10):
        loop.add("local", 0.02, 0.0)
    loop.run(20.0)
    assert loop.used["local"] >= 0.999 * 20.0


def test_two_that_are_costly_have_the_same() -> None:
    loop = crowd(50)
    loop.add("mallory", 0.02, 0.0)
    loop.run(60.0)
    assert abs(loop.used["eve"] - loop.used["mallory"]) < 0.05 * loop.used["eve"]


def test_principals_that_have_rested_are_forgotten() -> None:
    shares = Shares()
    for number in range(10 * MOST_RESTING):
        shares.spend(f"p{number}", 0.02, now=float(number) / 10)
    assert len(shares._free_at) <= MOST_RESTING


def test_who_holds_the_loop_for_longest_rests_too() -> None:
    """While it computes, no other is served: that others were served is looked for before it began."""
    shares = Shares()
    shares.see("alice", 0.0)
    shares.spend("eve", 1.5, now=1.6)
    assert shares.rest("eve", now=1.6) == MOST_REST


def test_what_took_very_long_once_does_not_shut_a_principal_out() -> None:
    """A neighbour whose first frame has kernels compiled must not wait for minutes."""
    shares = Shares()
    shares.see("alice", 0.0)
    shares.spend("broker b", 30.0, now=30.5)
    assert 0 < shares.rest("broker b", now=30.5) <= MOST_REST


async def compute(pace: Pace) -> None:
    """Compute longer than a slice; return when others had their turn and the principal its rest."""
    time.sleep(1.5 * SLICE_SECONDS)
    await pace.breathe()


@pytest.mark.parametrize("other", ["a client", "a neighbour", "a reader that acknowledges"])
def test_clients_rest_for_clients_not_for_neighbours_or_acknowledgements(other: str) -> None:
    async def rested() -> float:
        shares = Shares()
        eve, second = Pace(shares, "eve"), Pace(shares, "other", is_neighbour=other == "a neighbour")
        await eve.begin()
        if other == "a reader that acknowledges":
            second.begin_small()
        else:
            await second.begin()
        start = time.perf_counter()
        await compute(eve)
        return time.perf_counter() - start

    assert (asyncio.run(rested()) > REST * SLICE_SECONDS) == (other == "a client")


def test_a_neighbour_does_not_rest_for_clients() -> None:
    async def rested() -> float:
        shares = Shares()
        link, client = Pace(shares, "broker east", is_neighbour=True), Pace(shares, "alice")
        await link.begin()
        await client.begin()
        start = time.perf_counter()
        await compute(link)
        return time.perf_counter() - start

    assert asyncio.run(rested()) < REST * SLICE_SECONDS


def test_a_packet_with_a_message_is_not_an_acknowledgement() -> None:
    acknowledgement, message = (encode_frame(Frame(1, 2, seq, 7, body)) for seq, body in ((0, b""), (3, b"x")))
    assert _acknowledges_only(join_frames([acknowledgement]), "c:a")
    assert not _acknowledges_only(join_frames([acknowledgement, message]), "c:a")
    assert not _acknowledges_only(join_frames([acknowledgement] * 40), "c:a")
