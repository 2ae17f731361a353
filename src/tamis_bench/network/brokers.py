"""A network of real brokers on loopback: configured, started, linked, watched and ended."""

from __future__ import annotations

import contextlib
import json
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from tamis.errors import InvariantError
from tamis.model.schema import Schema
from tamis.runtime.broker.tokens import Tokens
from tamis_bench.network.link_bytes import link_bytes
from tamis_bench.network.topology import BrokerTree
from tamis_bench.serving.peer_servers import free_port
from tamis_bench.serving.processes import BrokerProcess, cpu_seconds, resident_megabytes, start_broker

__all__ = ["RunningNetwork", "running"]

#: Seconds until all links must be up.
_PATIENCE: Final = 60.0


@dataclass
class RunningNetwork:
    """Running brokers of a topology, by number; ``tokens`` lets readers hold more subscriptions than one user may."""

    topology: BrokerTree
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
        reported = [size for size in sizes if size is not None]
        return sum(reported) if len(reported) == len(sizes) else None


@contextlib.contextmanager
def running(topology: BrokerTree, policy: str, schema: Schema, max_subscriptions: int) -> Iterator[RunningNetwork]:
    """Start the brokers of a topology and yield them when all links are up; they end with the block."""
    with tempfile.TemporaryDirectory() as directory:
        ports = [free_port() for _ in range(topology.n_brokers)]
        homes = [Path(directory) / str(number) for number in range(topology.n_brokers)]
        tokens = []
        for number, home in enumerate(homes):
            (home / "data").mkdir(mode=0o700, parents=True)
            (home / "schema.json").write_text(schema.to_json())
            (home / "broker.toml").write_text(_config(topology, ports, number, policy))
            tokens.append(Tokens(home / "data" / "tokens.json").add("bench", max_subscriptions=max_subscriptions))
        network = RunningNetwork(topology, _start_all([home / "broker.toml" for home in homes], ports), tokens)
        try:
            _wait_until_linked(network)
            yield network
        finally:
            for broker in network.brokers:
                broker.kill()


def _start_all(configs: Sequence[Path], ports: Sequence[int]) -> list[BrokerProcess]:
    """Start brokers at the same time, because importing and loading kernels takes each some seconds; all or none."""
    with ThreadPoolExecutor(len(configs)) as pool:
        futures = [
            pool.submit(start_broker, "--config", str(config), port=port)
            for config, port in zip(configs, ports, strict=True)
        ]
    failures = [error for future in futures if (error := future.exception()) is not None]
    brokers = [future.result() for future in futures if future.exception() is None]
    if failures:
        for broker in brokers:
            broker.kill()
        raise failures[0]
    return brokers


def _config(topology: BrokerTree, ports: Sequence[int], number: int, policy: str) -> str:
    """Return the configuration of a broker; it dials its parent."""
    lines = [f'name = "b{number}"', 'data = "data"', 'schema = "schema.json"']
    for child, parent in topology.links:
        if child == number:
            lines += ["[[links]]", f'name = "b{parent}"', f'url = "http://127.0.0.1:{ports[parent]}"']
        elif parent == number:
            lines += ["[[links]]", f'name = "b{child}"']
        else:
            continue
        lines.append(f'policy = "{policy}"')
    return "\n".join(lines) + "\n"


def _wait_until_linked(network: RunningNetwork) -> None:
    end = time.monotonic() + _PATIENCE
    for number, broker in enumerate(network.brokers):
        while not all(link["connected"] for link in _statistics(broker.url)["links"]):
            if broker.process.poll() is not None or time.monotonic() > end:
                raise InvariantError(f"the links of broker b{number} did not come up within {_PATIENCE:g} s")
            time.sleep(0.02)


def _statistics(url: str) -> dict[str, list[dict[str, object]]]:
    with urllib.request.urlopen(f"{url}/v1/statistics", timeout=30) as answer:
        statistics: dict[str, list[dict[str, object]]] = json.load(answer)
    return statistics
