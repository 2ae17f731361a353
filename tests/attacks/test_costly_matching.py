"""Attack: one event and one filter, or many filters, whose match takes a tenth of a second to a minute.

Such an event is matched in a thread; the longest step of the event loop is measured (`tests.attacks.stalls`).
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, NamedTuple

from tests.attacks.costs import filled, star
from tests.attacks.stalls import watched_broker

#: Units of CPU time, about 5 ms each, that one step of the loop may take: 50 ms.
MOST_UNITS = 10.0


class Attack(NamedTuple):
    """Filters and an event in a namespace of their own; all filters match it if ``is_met``."""

    filters: list[str]
    event: dict[str, Any]
    is_met: bool = False


ATTACKS = {
    "likes": Attack([filled(lambda n: f"s LIKE '%{'ab' * 9}{n}%a_b%'", " OR ")], {"s": "abba" * 60_000}),
    "regions": Attack(
        [" AND ".join(f"S_INTERSECTS(plane, {star(12, i / 100, 0)})" for i in range(256))],
        {"plane": star(9_000, 0.4, 0.1)},
        is_met=True,
    ),
    "expressions": Attack([f"s MATCHES '(a|b)*a(a|b){{9}}c{n}'" for n in range(12)], {"s": "abba" * 50_000}),
}


def test_a_costly_match_does_not_hold_the_loop(tmp_path: Path) -> None:
    async def story() -> dict[str, float]:
        units: dict[str, float] = {}
        async with watched_broker(tmp_path) as watched:
            first = {"filter": f"S_INTERSECTS(plane, {star(5, 9, 9)})", "namespace": "first"}  # kernels are loaded
            assert (await watched.ask("/v1/subscriptions", "POST", first)).status == 201
            assert (await watched.ask("/v1/events?namespace=first", "POST", {"plane": star(9_000, 0, 0)})).status == 200
            for name, attack in ATTACKS.items():
                bodies = [
                    {"filter": text, "id": f"{name}{n}", "namespace": name} for n, text in enumerate(attack.filters)
                ]
                assert (await watched.ask("/v1/subscriptions", "POST", bodies)).status == 201
                for path, body in (
                    (f"/v1/events?namespace={name}", attack.event),
                    ("/v1/matches", {"event": attack.event, "namespace": name}),
                ):
                    watched.reset()
                    answer = await watched.ask(path, "POST", body)
                    units[f"{name} {path}"] = watched.units()
                    assert answer.status == 200, answer.body
                assert answer.json["count"] == len(attack.filters) * attack.is_met
                shown = await watched.ask(f"/v1/subscriptions/{name}0/log?namespace={name}")
                assert len(shown.json["messages"]) == int(attack.is_met), shown.body
        return units

    units = asyncio.run(story())
    assert max(units.values()) < MOST_UNITS, units
