"""Attack: a cursor of thousands of digits, which Python refuses to turn into a number with a ValueError.

The broker must take it for what it is, no cursor of its own, and go on as for a client without a cursor.
"""

from __future__ import annotations

import pytest

from tests.attacks.wire import assert_serves, dialled, run
from tests.server.processes import BrokerProcess

NINES = "9" * 5_000


@pytest.mark.parametrize("cursor", [f"{NINES}-1", f"1-{NINES}", "-", "\u0663-\u0664"])
def test_a_cursor_that_is_none_is_ignored(broker: BrokerProcess, cursor: str) -> None:
    async def story() -> None:
        async with dialled(broker, f"client=late&after={cursor}") as wire:
            assert wire.epoch
        await assert_serves(broker)

    run(story())


def test_a_long_number_beside_the_right_epoch_is_ignored(broker: BrokerProcess) -> None:
    async def story() -> None:
        async with dialled(broker, "client=late") as wire:
            epoch = wire.epoch
        async with dialled(broker, f"client=late&after={epoch}-{NINES}") as wire:
            assert wire.epoch == epoch
        await assert_serves(broker)

    run(story())
