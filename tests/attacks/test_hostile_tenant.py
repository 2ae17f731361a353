"""Attack: one tenant does all it can while others publish and read: each of them is served.

How much slower they are is measured by `tests.attacks.load`; a busy machine gives no verdict on that.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.attacks.load import Size, crowded_broker, measure
from tests.attacks.wire import HANGS


def test_others_are_served_while_one_tenant_attacks(tmp_path: Path) -> None:
    size = Size(idle=6, active=6, tenants=4, rounds=1, seconds=2.0)
    with crowded_broker(tmp_path, size) as guarded:
        figures = asyncio.run(asyncio.wait_for(measure(guarded, size), HANGS))
        assert guarded.ask("t0", "/v1/events?namespace=t0", "POST", {"to": 1}).status == 200
        assert "Traceback" not in guarded.broker.log()
    assert figures.events >= 2 * 2 * size.active
    assert figures.answers["subscribe", 201] >= 1
    assert {status for kind, status in figures.answers if kind != "send_frames"} <= {200, 201, 409, 413, 429, 503}
    assert figures.ratio > 0
