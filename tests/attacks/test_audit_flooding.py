"""M4: no set of principals pushes out records about security, and the audit shows what a filter means."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import msgspec

import tamis
from tamis.node.effects import Persist
from tamis.routing import messages as m
from tamis.routing.edge.audit import DEEDS_PER_HOUR, MAX_AUDIT, REFUSALS_OF_PRINCIPAL, Deed, TokensSeen, Trail
from tamis.routing.edge.rights import Rights
from tamis.runtime.stores.sqlite_store import SqliteStore
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
    counted = [deed for deed in noted if "within an hour, the last: " in deed.detail]
    assert {deed.what for deed in counted} == {"subscribe", "unsubscribe", "refuse"}
    one_by_one = sum(deed.what == "subscribe" and deed not in counted for deed in noted)
    many = sum(int(deed.detail.split()[0].replace(",", "")) for deed in counted if deed.what == "subscribe")
    assert one_by_one + many == 100_000  # nothing is left out of the count


def test_what_others_and_the_broker_do_is_noted_one_by_one_beside_it() -> None:
    trail = Trail()
    for number in range(10 * DEEDS_PER_HOUR):
        trail.note(Deed(number, "eve", "subscribe", address="remote"))
    trail.note(Deed(1, "alice", "subscribe", "hers", address="remote"))
    for _ in range(2 * DEEDS_PER_HOUR):
        trail.note(Deed(2, "operator", "token add", "eve", address="file"))
    noted = deeds(trail.take())
    assert [deed.who for deed in noted].count("eve") == DEEDS_PER_HOUR
    assert [deed.subject for deed in noted if deed.who == "alice"] == ["hers"]
    assert [deed.who for deed in noted].count("operator") == 2 * DEEDS_PER_HOUR


def flood(trail: Trail, now: float, principals: list[str]) -> None:
    """Each principal does in one moment what its quotas allow, and much that they do not."""
    for who in principals:
        for number in range(3 * DEEDS_PER_HOUR):
            for what in ("subscribe", "unsubscribe"):
                trail.note(Deed(round(now * 1e6), who, what, str(number), address="remote"))
        for number in range(3 * REFUSALS_OF_PRINCIPAL):
            refusal = tamis.errors.RefusedError(403, f"{who} {number}")
            trail.note_error(now + 11.0 * number, Rights(who, address="remote"), "event", "acme", refusal)
    for number in range(3 * DEEDS_PER_HOUR):  # subscriptions that expire: the broker ends them
        trail.note(Deed(round(now * 1e6), "broker", "end", str(number), "acme"))


def test_many_principals_together_push_out_nothing_about_security(tmp_path: Path) -> None:
    """What the operator did and the refusals of others stay for as long as the audit is kept."""
    trail, store = Trail(), SqliteStore(tmp_path)
    store.load()
    trail.tick(0.0)
    trail.see_tokens(TokensSeen(frozenset({("alice", "1"), ("mallory", "2")})), 0.0)
    trail.see_tokens(TokensSeen(frozenset({("alice", "1")})), 1.0)
    trail.note_error(2.0, Rights("alice", address="remote"), "event", "acme", tamis.errors.RefusedError(403, "hers"))
    store.commit(trail.take(), now=2.0)
    hours, eves = 3, [f"eve{number}" for number in range(60)]
    for hour in range(1, hours + 1):
        flood(trail, hour * HOUR, eves)
        trail.tick(hour * HOUR + HOUR - 1)
        store.commit(trail.take(), now=hour * HOUR)
    kept = [record.deed for record in store.read_audit(limit=100_000)]
    security = [deed for deed in kept if deed.what in ("refuse", "token add", "token revoke")]
    in_90_days = (len(security) - 4) * 24 * 90 / hours
    assert in_90_days < 0.8 * MAX_AUDIT  # with room for what the operator does
    assert len(kept) - len(security) > 20 * len(security)
    assert store.trim_audit(keep=len(security), before=0) == len(kept) - 2 * len(security)
    newest = [(deed.what, deed.subject, deed.detail) for deed in security[-4:]]
    assert newest[::-1] == [
        ("token add", "alice", ""),
        ("token add", "mallory", ""),
        ("token revoke", "mallory", ""),
        ("refuse", "event", "hers"),
    ]
    assert [record.deed for record in store.read_audit(limit=100_000) if record.deed in security] == security
    store.close()


def test_a_refusal_among_those_of_many_has_a_record_of_its_own() -> None:
    """A few principals are refused all the time. One that is refused once is noted at once, and so is its number."""
    trail = Trail()
    trail.tick(HOUR)
    flood(trail, HOUR, [f"eve{number}" for number in range(30)])
    trail.note_error(
        HOUR + 600, Rights("alice", address="remote"), "event", "acme", tamis.errors.RefusedError(403, "no")
    )
    noted = deeds(trail.take())
    assert [deed.who for deed in noted if deed.what == "refuse"].count("alice") == 1
    trail.tick(2 * HOUR)
    sums = [deed for deed in deeds(trail.take()) if deed.what == "refuse"]
    assert len(sums) <= 10
    assert "of 21 principals" in sums[-1].detail
    counted = sum(int(deed.detail.split()[0].replace(",", "")) for deed in sums)
    # All refusals of the flood are noted or counted; each principal waits 11 s between two of them.
    assert counted + sum(deed.what == "refuse" for deed in noted) == 30 * 3 * REFUSALS_OF_PRINCIPAL + 1


def test_the_text_of_a_subscription_is_what_its_filter_means(tmp_path: Path) -> None:
    lie = m.Subscribe("x", b'{"op":">=","args":[{"property":"mag"},0]}', about=b'{"text":"mag > 9"}')

    async def story(broker: BrokerProcess) -> None:
        async with dialled(broker) as wire:
            await wire.say(m.encode(lie))

    with running(BrokerProcess(tmp_path)) as (broker,):
        asyncio.run(asyncio.wait_for(story(broker), HANGS))
        listed = f"{broker.url}/v1/subscriptions"
        [shown] = wait_until(lambda: ask(listed).json["subscriptions"], "the subscription")
        # The record is written after the step that the listing shows.
        deeds = wait_until(lambda: _deeds(broker, "subscribe"), "the record of the subscription")
    assert "mag > 9" not in str(shown)
    assert [deed["detail"] for deed in deeds] == ["mag >= 0"]


def _deeds(broker: BrokerProcess, kind: str) -> list[dict[str, str]]:
    return [deed for deed in ask(f"{broker.url}/v1/audit").json["deeds"] if deed["what"] == kind]


def test_what_is_only_counted_is_counted_whole() -> None:
    """Refusals of one principal are summed up every few seconds; a sum counts for as many as it stands for."""
    trail, start, n = Trail(), 3600.0, 0
    trail.tick(start)
    for second in range(600):
        for _ in range(10):
            trail.note(Deed(round((start + second) * 1e6), "eve", "refuse", "x", detail="no"))
            n += 1
        trail.tick(start + second)
        trail.take()
    trail.tick(start + 3601)
    details = [msgspec.msgpack.decode(change.value, type=Deed).detail for change in trail.take() if change.value]
    sums = [int(number.replace(",", "")) for number in re.findall(r"([\d,]+) within an hour", " ".join(details))]
    assert 0.9 * n < sum(sums) <= n


def test_what_was_only_counted_is_noted_when_the_broker_stops() -> None:
    trail, eve = Trail(), Rights("eve", address="remote")
    trail.tick(1.0)
    for number in range(3 * DEEDS_PER_HOUR):
        trail.note(Deed(number, "eve", "subscribe", address="remote"))
        trail.note_error(2.0, eve, "event", "acme", tamis.errors.RefusedError(403, "no"))
    before = deeds(trail.take())
    trail.note(Deed(3_000_000, "broker", "stop", "broker"))
    *last, stop = deeds(trail.take())
    assert stop.what == "stop"
    assert [deed.detail.split()[0] for deed in last if deed.what == "subscribe"] == [f"{2 * DEEDS_PER_HOUR}"]
    refused = [deed for deed in (*before, *last) if deed.what == "refuse"]
    assert [deed.detail.partition(" more")[0] for deed in refused] == ["no", f"{3 * DEEDS_PER_HOUR - 1}"]
