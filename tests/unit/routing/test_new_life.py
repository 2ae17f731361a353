"""The new life of a restored disk: every queue of a client is told that something may be missing."""

from __future__ import annotations

from tamis.node import records
from tamis.node.effects import Persist
from tamis.node.overflow import overflow_of
from tamis.node.stream import CLIENT_EPOCH
from tamis.routing import messages as m
from tamis.routing.edge.link_names import http_link
from tamis.routing.former_neighbours import forget_neighbours
from tamis.routing.new_life import begin_new_life
from tamis.routing.policies import find_policy
from tamis.routing.rings import RingDetector


def test_a_subscription_that_was_sent_nothing_gets_its_gap() -> None:
    quiet, busy = http_link("default", "quiet"), http_link("default", "busy")
    changes = [
        records.EPOCH.put(value=7),
        records.INTEREST.put(quiet, "k", value=m.encode(m.Subscribe("quiet", b"{}"))),
        records.INTEREST.put(busy, "k", value=m.encode(m.Subscribe("busy", b"{}"))),
        records.INTEREST.put("east", "k", value=b""),
        records.LINK.put(busy, value=records.LinkPosition(CLIENT_EPOCH, 0, 4)),
        records.LINK.put("east", value=records.LinkPosition(3, 0, 4)),
        records.OVERFLOW_END.put(overflow_of("east"), value=2),
    ]
    stored = {change.key: change.value for change in changes if change.value is not None}
    begun = {change.key: change.value for change in begin_new_life(stored, ["east"], epoch=9, since=5)}
    assert not [key for key in begun if key[0] == "overflow_end"]  # what waits for a neighbour is kept
    assert {key for key in begun if key[0] == "out"} == {("out", quiet, "1"), ("out", busy, "5")}
    records_of_links = {link: records.LINK.layout.decode(value) for (kind, link), value in _links(begun).items()}
    assert records_of_links == {
        quiet: records.LinkPosition(CLIENT_EPOCH, 0, 1),
        busy: records.LinkPosition(CLIENT_EPOCH, 0, 5),
    }


def _links(begun: dict[tuple[str, ...], bytes | None]) -> dict[tuple[str, ...], bytes]:
    return {key: value for key, value in begun.items() if key[0] == "link" and value is not None}


def test_a_replaced_link_stays_replaced_and_all_else_about_neighbours_is_forgotten() -> None:
    rings = RingDetector("me", {link: find_policy("covering") for link in ("east", "west")})
    effects = [*rings.restore({}, now=1.0), *rings.put_in_place("east", "west")]
    stored = {
        effect.key: effect.value for effect in effects if isinstance(effect, Persist) and effect.value is not None
    }
    stored[records.EPOCH.key()] = records.EPOCH.put(value=1).value or b""
    for change in begin_new_life(stored, ("east", "west"), epoch=2, since=0):
        if change.value is None:
            stored.pop(change.key, None)
    assert records.REACH.key("west") not in stored
    again = RingDetector("me", {link: find_policy("covering") for link in ("east", "west")})
    again.restore(stored, now=2.0)
    assert "replaced by 'west'" in again.why_not("east")


def test_what_waits_for_a_former_neighbour_is_forgotten_also_if_it_never_came() -> None:
    changes = [records.OVERFLOW_END.put(overflow_of(link), value=2) for link in ("east", "west")]
    stored = {change.key: change.value or b"" for change in changes}
    assert forget_neighbours(stored, ["east"], epoch=1) == [records.OVERFLOW_END.drop(overflow_of("west"))]
