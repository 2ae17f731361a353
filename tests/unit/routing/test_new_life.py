"""The new life of a restored disk: every queue of a client is told that something may be missing."""

from __future__ import annotations

from tamis.node import records
from tamis.node.stream import CLIENT_EPOCH
from tamis.routing import messages as m
from tamis.routing.edge.link_names import http_link
from tamis.routing.new_life import begin_new_life


def test_a_subscription_that_was_sent_nothing_gets_its_gap() -> None:
    quiet, busy = http_link("default", "quiet"), http_link("default", "busy")
    changes = [
        records.EPOCH.put(value=7),
        records.INTEREST.put(quiet, "k", value=m.encode(m.Subscribe("quiet", b"{}"))),
        records.INTEREST.put(busy, "k", value=m.encode(m.Subscribe("busy", b"{}"))),
        records.INTEREST.put("east", "k", value=b""),
        records.LINK.put(busy, value=records.Cursor(CLIENT_EPOCH, 0, 4)),
        records.LINK.put("east", value=records.Cursor(3, 0, 4)),
    ]
    stored = {change.key: change.value for change in changes if change.value is not None}
    begun = {change.key: change.value for change in begin_new_life(stored, ["east"], epoch=9, since=5)}
    assert {key for key in begun if key[0] == "out"} == {("out", quiet, "1"), ("out", busy, "5")}
    told = {link: records.LINK.layout.decode(value) for (kind, link), value in _links(begun).items()}
    assert told == {quiet: records.Cursor(CLIENT_EPOCH, 0, 1), busy: records.Cursor(CLIENT_EPOCH, 0, 5)}


def _links(begun: dict[tuple[str, ...], bytes | None]) -> dict[tuple[str, ...], bytes]:
    return {key: value for key, value in begun.items() if key[0] == "link" and value is not None}
