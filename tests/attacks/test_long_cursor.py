"""Attack: a cursor of thousands of digits, which Python refuses to turn into a number with a ValueError.

The broker must refuse that one connection with a reason that names the parameter, and serve all others.
"""

from __future__ import annotations

import pytest
from websockets.exceptions import ConnectionClosedError

from tests.attacks.wire import assert_serves, dialled, run
from tests.server.processes import BrokerProcess

NINES = "9" * 5_000


@pytest.mark.parametrize("cursor", [f"{NINES}-1", f"1-{NINES}", "-", "\u0663-\u0664"])
def test_a_cursor_that_is_none_is_refused(broker: BrokerProcess, cursor: str) -> None:
    async def story() -> None:
        with pytest.raises(ConnectionClosedError, match="after: expected the cursor of a message"):
            async with dialled(broker, f"client=late&after={cursor}"):
                pass
        await assert_serves(broker)

    run(story())


def test_a_long_number_beside_the_right_epoch_is_refused(broker: BrokerProcess) -> None:
    async def story() -> None:
        async with dialled(broker, "client=late") as wire:
            epoch = wire.epoch
        with pytest.raises(ConnectionClosedError, match="after: expected the cursor of a message"):
            async with dialled(broker, f"client=late&after={epoch}-{NINES}"):
                pass
        await assert_serves(broker)

    run(story())


def test_a_cursor_of_another_life_is_taken(broker: BrokerProcess) -> None:
    async def story() -> None:
        async with dialled(broker, "client=late&after=1-7") as wire:
            assert wire.epoch

    run(story())
