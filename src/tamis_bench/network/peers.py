"""What a hop costs without filters: the same events through one NATS or Mosquitto server and through a linked pair.

Each event has one subject or topic and one reader, and nothing is written to a disk: a ceiling, not a rival.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final, Protocol

from tamis_bench.network.measure import NetworkLoad
from tamis_bench.rows import Row
from tamis_bench.serving import mqtt, nats
from tamis_bench.serving.peer_servers import Passage, Servers, find_program
from tamis_bench.workloads.boxes import box_payloads

__all__ = ["PEERS", "measure_peers"]


class _Start(Protocol):
    def __call__(self, program: str, *, linked: bool) -> AbstractContextManager[Servers]: ...


#: Each event reaches a reader here, so fewer of them suffice.
_FEWER: Final = 4


@dataclass(frozen=True)
class Peer:
    """A server of others: its program, how one or two of them are started and how events are sent through."""

    program: str
    not_installed: str
    start: _Start
    send: Callable[[Servers, Sequence[bytes], int, float], Passage]
    note: str


PEERS: Final = {
    "nats": Peer(
        "nats-server",
        nats.NOT_INSTALLED,
        nats.nats_servers,
        nats.pass_nats,
        "nats: by subject, at most once, no disk; the pair is a hub and a leaf node",
    ),
    "mosquitto": Peer(
        "mosquitto",
        mqtt.NOT_INSTALLED,
        mqtt.mosquitto_servers,
        mqtt.pass_mosquitto,
        "mosquitto: by topic, QoS 1, no disk; the pair is joined by a bridge",
    ),
}


def measure_peers(
    names: Sequence[str], load: NetworkLoad, say: Callable[[str], None] = lambda text: None
) -> Iterator[Row]:
    """Yield the rows of one server and of a pair; a row with the reason where a server is not installed."""
    payloads = box_payloads("uniform4", max(1, load.events // _FEWER))
    for name in names:
        program = find_program(PEERS[name].program)
        if program is None:
            yield Row("topics", 0, name, "network", None, note=f"not run: {PEERS[name].not_installed}")
            continue
        say(f"{name}: one server and a pair")
        yield from _measure(name, PEERS[name], program, payloads, load)


def _measure(name: str, peer: Peer, program: str, payloads: Sequence[bytes], load: NetworkLoad) -> Iterator[Row]:
    alone: list[tuple[str, float | None]] = []
    for hops in (0, 1):
        with peer.start(program, linked=bool(hops)) as servers:
            passage = peer.send(servers, payloads, load.readers, load.seconds)
        figures = [("network", passage.rate), ("network cpu", passage.cpu[0])]
        figures += [(f"network p50 {hops} hops", passage.p50), (f"network p99 {hops} hops", passage.p99)]
        alone = alone or figures
        system = f"pair {name}" if hops else name
        for (what, value), (_, reference) in zip(figures, alone, strict=True):
            ratio = value / reference if value and reference else None
            yield Row("topics", 0, system, what, value, ratio, note=peer.note)
        if hops:
            yield Row("topics", 0, system, "network cpu home", passage.cpu[1], note=peer.note)
