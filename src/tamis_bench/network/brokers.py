"""A network of real brokers on loopback: configured, started, linked, watched and ended."""

from __future__ import annotations

import contextlib
import json
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from tamis.errors import InvariantError
from tamis.model.schema import Schema
from tamis.runtime.broker.tokens import Tokens
from tamis_bench.network.link_bytes import link_bytes
from tamis_bench.network.topology import Topology
from tamis_bench.serving.processes import BrokerProcess, cpu_seconds, resident_megabytes, start_broker

__all__ = ["Network", "running"]

#: Seconds until all links must be up.
_PATIENCE: Final = 60.0


@dataclass
class Network:
    """Running brokers of a topology, by number; ``tokens`` lets readers hold more subscriptions than one user may."""

    topology: Topology
    brokers: list[BrokerProcess]
    tokens: list[str]

    def cpu(self) -> list[float | None]:
        """Return the processor time of each broker so far."""
        return [cpu_seconds(broker.pid) for broker in self.brokers]

    def memory(self) -> list[float | None]:
        """Return the resident megabytes of each broker."""
        return [resident_megabytes(broker.pid) for broker in self.brokers]

    def bytes_on_links(self) -> int | None:
        """Return the bytes that all links carried so far, both ways, None where the system does not report them."""
        sizes = [
            link_bytes(self.brokers[near].pid, urlsplit(self.brokers[far].url).port or 0)
            for near, far in self.topology.links
        ]
        known = [size for size in sizes if size is not None]
        return sum(known) if len(known) == len(sizes) else None


@contextlib.contextmanager
def running(topology: Topology, policy: str, schema: Schema, max_subscriptions: int) -> Iterator[Network]:
    """Start the brokers of a topology and yield them when all links are up; they end with the block."""
    with tempfile.TemporaryDirectory() as directory:
        network = Network(topology, [], [])
        try:
            for number in range(topology.n_brokers):
                place = Path(directory) / str(number)
                place.mkdir()
                (place / "schema.json").write_text(schema.to_json())
                (place / "broker.toml").write_text(_config(network, number, policy))
                (place / "data").mkdir(mode=0o700)
                fields = {"max_subscriptions": max_subscriptions}
                network.tokens.append(Tokens(place / "data" / "tokens.json").add("bench", **fields))
                network.brokers.append(start_broker("--config", str(place / "broker.toml")))
            _wait_until_linked(network)
            yield network
        finally:
            for broker in network.brokers:
                broker.kill()


def _config(network: Network, number: int, policy: str) -> str:
    """Return the configuration of a broker; it dials its parent, which is started before it."""
    lines = [f'name = "b{number}"', 'data = "data"', 'schema = "schema.json"']
    for child, parent in network.topology.links:
        if child == number:
            lines += ["[[links]]", f'name = "b{parent}"', f'url = "{network.brokers[parent].url}"']
        elif parent == number:
            lines += ["[[links]]", f'name = "b{child}"']
        else:
            continue
        lines.append(f'policy = "{policy}"')
    return "\n".join(lines) + "\n"


def _wait_until_linked(network: Network) -> None:
    end = time.monotonic() + _PATIENCE
    for number, broker in enumerate(network.brokers):
        while not all(link["connected"] for link in _statistics(broker.url)["links"]):
            if broker.process.poll() is not None or time.monotonic() > end:
                raise InvariantError(f"the links of broker b{number} did not come up within {_PATIENCE:g} s")
            time.sleep(0.02)


def _statistics(url: str) -> dict[str, list[dict[str, object]]]:
    with urllib.request.urlopen(f"{url}/v1/statistics", timeout=30) as answer:
        found: dict[str, list[dict[str, object]]] = json.load(answer)
    return found
