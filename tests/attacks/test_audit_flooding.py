"""M4: no principal pushes others out of the audit, and the audit shows what a filter means, not what a client says."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec

import tamis
from tamis.node.effects import Persist
from tamis.routing import messages as m
from tamis.routing.edge.audit import DEEDS_PER_HOUR, MAX_AUDIT, Deed, Trail
from tamis.routing.edge.rights import Rights
from tests.attacks.wire import dialled
from tests.server.processes import HANGS, BrokerProcess, ask, running, wait_until

HOUR = 3_600.0


def deeds(changes: list[Persist]) -> list[Deed]:
    return [msgspec.msgpack.decode(change.value or b"", type=Deed) for change in changes]


def test_a_principal_that_subscribes_all_day_is_a_few_records() -> None:
    trail, eve, noted = Trail(), Rights("eve", address="remote"), list[Deed]()
    trail.tick(0.0)
    for number in range(100_000):
        now = number * 24 * HOUR / 100_000
        trail.tick(now)
        for what in ("subscribe", "unsubscribe"):
            trail.note(Deed(round(now * 1e6), "eve", what, str(number), address="remote", detail=f"n > {number}"))
            trail.note_error(now, eve, "event", "acme", tamis.errors.RefusedError(403, "no"))
        noted += deeds(trail.take())
    trail.tick(25 * HOUR)
    noted += deeds(trail.take())
    assert 90 * len(noted) < MAX_AUDIT  # 90 days of that leave room for others
    counted = [one for one in noted if "within an hour, the last: " in one.detail]
    assert {one.what for one in counted} == {"subscribe", "unsubscribe", "refuse"}
    one_by_one = sum(one.what == "subscribe" and one not in counted for one in noted)
    many = sum(int(one.detail.split()[0].replace(",", "")) for one in counted if one.what == "subscribe")
    assert one_by_one + many == 100_000  # nothing is left out of the count


def test_what_others_and_the_broker_do_is_noted_one_by_one_beside_it() -> None:
    trail = Trail()
    for number in range(10 * DEEDS_PER_HOUR):
        trail.note(Deed(number, "eve", "subscribe", address="remote"))
    trail.note(Deed(1, "alice", "subscribe", "hers", address="remote"))
    for _ in range(2 * DEEDS_PER_HOUR):
        trail.note(Deed(2, "operator", "token add", "eve", address="file"))
    noted = deeds(trail.take())
    assert [one.who for one in noted].count("eve") == DEEDS_PER_HOUR
    assert [one.subject for one in noted if one.who == "alice"] == ["hers"]
    assert [one.who for one in noted].count("operator") == 2 * DEEDS_PER_HOUR


def test_the_text_of_a_subscription_is_what_its_filter_means(tmp_path: Path) -> None:
    lie = m.Subscribe("x", b'{"op":">=","args":[{"property":"mag"},0]}', about=b'{"text":"mag > 9"}')

    async def story(broker: BrokerProcess) -> None:
        async with dialled(broker) as wire:
            await wire.say(m.encode(lie))

    with running(BrokerProcess(tmp_path)) as (broker,):
        asyncio.run(asyncio.wait_for(story(broker), HANGS))
        listed = f"{broker.url}/v1/subscriptions"
        [shown] = wait_until(lambda: ask(listed).json["subscriptions"], "the subscription")
        newest = ask(f"{broker.url}/v1/audit").json["deeds"][0]
    assert "mag > 9" not in str(shown)
    assert (newest["what"], newest["detail"]) == ("subscribe", "mag >= 0")
