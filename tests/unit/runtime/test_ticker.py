"""Work that was too much for one step goes on while nothing else is to be done, and rests while others are served."""

from __future__ import annotations

import asyncio
import time

from tamis.runtime.broker.driver import BUSY_SECONDS, REST, _Ticker

#: Seconds that a tick takes here: its rest would be `REST` times as long.
TICK = 0.1


def pauses_between_ticks(others_work_for: float) -> list[float]:
    """Return how long each of three ticks rested after the one before; others take turns of the loop meanwhile."""

    async def story() -> list[float]:
        starts, ends, done = list[float](), list[float](), asyncio.Event()

        def tick() -> None:
            starts.append(time.perf_counter())
            time.sleep(TICK)
            ends.append(time.perf_counter())
            if len(starts) == 3:
                done.set()
            else:
                loop.call_soon(time.sleep, 4 * BUSY_SECONDS)  # another client's turn comes first
                ticker.soon()

        def serve() -> None:
            if time.perf_counter() < stop and not done.is_set():
                time.sleep(4 * BUSY_SECONDS)
                loop.call_soon(serve)

        loop, ticker = asyncio.get_running_loop(), _Ticker(tick, lambda: False)
        stop = time.perf_counter() + others_work_for
        loop.call_soon(serve)
        ticker.soon()
        await done.wait()
        return [start - end for start, end in zip(starts[1:], ends, strict=False)]

    return asyncio.run(story())


def test_a_rest_ends_when_it_serves_no_other() -> None:
    assert min(pauses_between_ticks(others_work_for=0)) < REST * TICK / 2


def test_a_tick_rests_while_others_are_served() -> None:
    assert min(pauses_between_ticks(others_work_for=60)) >= 0.9 * REST * TICK
