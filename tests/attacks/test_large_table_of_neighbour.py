"""Attack: a neighbouring broker announces filters without end, to fill the memory and the disk of the broker."""

from __future__ import annotations

import pytest

from tamis.errors import RemoteProtocolError
from tamis.node import records
from tamis.routing import messages as m
from tamis.routing import neighbour_checks
from tests.fuzz.neighbours import World


def entry(key: str, size: int = 10) -> m.Entry:
    return m.Entry(key, "default", b"true".ljust(size))


@pytest.mark.parametrize(
    ("limit", "reason"),
    [("MAX_ENTRIES_OF_NEIGHBOUR", "entries in all"), ("MAX_BYTES_OF_SUBSCRIPTIONS", "bytes of filters")],
)
def test_the_table_of_a_neighbour_is_bounded(limit: str, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbour_checks, limit, 2 if "ENTRIES" in limit else 20)
    world = World(("covering", "covering"))
    world.start()
    evil = world.connect("evil")

    def announce(*entries: m.Entry, retract: tuple[str, ...] = (), replace: bool = False) -> None:
        end = world.machine.node.ends["evil"]
        update = m.Update(end.received + 1, entries, retract, replace)
        world.take(evil, [3, 9, end.received + 1, 0], m.encode(update))

    announce(entry("a"), replace=True)
    announce(entry("b"))
    announce(entry("b"), entry("a"))  # the same keys again
    for too_much in [(entry("c"),), (entry("c"), entry("d")), (entry("b"), entry("c"))]:
        with pytest.raises(RemoteProtocolError, match=f"link 'evil': {reason}.* is more than the"):
            announce(*too_much)
    world.check()
    announce(retract=("a",))
    announce(entry("c"))
    announce(entry("x"), entry("y"), replace=True)
    assert sorted(key for (_, key), _ in records.INTEREST.items(world.disk.state)) == ["x", "y"]
    world.start()  # counted again from the disk
    evil = world.connect("evil")
    with pytest.raises(RemoteProtocolError, match=reason):
        announce(entry("z"))
