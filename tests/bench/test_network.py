"""The benchmark of networks runs and checks what is delivered; no figure decides anything here."""

from __future__ import annotations

import asyncio
import os
import socket
import sys

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from tamis.engine import Engine
from tamis.errors import InvariantError
from tamis.model.tables import SubscriptionTable
from tamis_bench.commands.app import app
from tamis_bench.network.brokers import RunningNetwork
from tamis_bench.network.link_bytes import link_bytes
from tamis_bench.network.measure import POLICIES, NetworkLoad, Workload, _subscribe, measure_network
from tamis_bench.network.peers import PEERS, measure_peers
from tamis_bench.network.tables import network_notes, network_sheets
from tamis_bench.network.topology import ONE_BROKER, TOPOLOGIES
from tamis_bench.rows import Row
from tamis_bench.serving.clients import Arrivals
from tamis_bench.serving.peer_servers import find_program
from tamis_bench.serving.publishing import Audience, Run
from tamis_bench.workloads.network import KINDS, make_network_work

FEW = NetworkLoad(readers=2, events=400, seconds=0.3)


def test_a_pair_is_measured_beside_one_broker() -> None:
    progress = list[str]()
    rows = list(measure_network(["ranges"], [1_000], ["pair"], ["covering"], FEW, progress.append))
    figures = {(row.system, row.what): row for row in rows}
    assert len(figures) == len(rows)
    both = {"network load", "network subscribing", "network", "network cpu", "network memory"}
    alone = {what for system, what in figures if system == "one broker"}
    paired = {what for system, what in figures if system == "pair covering"}
    assert alone == both | {"network p50 0 hops", "network p99 0 hops"}
    assert paired == both | {
        *("network p50 1 hops", "network p99 1 hops", "network cpu home", "network memory home"),
        "network subscribing home",
        *("network bytes subscription", "network bytes event"),
    }
    assert all(row.rate is not None and row.rate >= 0 for row in rows)
    link = figures["pair covering", "network"]
    assert link.ratio == pytest.approx(link.rate / figures["one broker", "network"].rate)  # type: ignore[operator]
    if sys.platform == "linux":  # four bounds of eight bytes each cross the link
        assert figures["pair covering", "network bytes subscription"].rate > 32  # type: ignore[operator]
    assert progress[-1] == "ranges, 1,000 subscriptions: pair covering"


@pytest.mark.parametrize("kind", KINDS)
def test_the_oracle_of_each_kind_says_what_an_engine_says(kind: str) -> None:
    work = make_network_work(kind, 200, 300, 50)
    events, rows = work.find_pairs(work.events)
    assert set(events.tolist()) >= set(range(300, 350))  # aimed events
    engine = Engine(work.schema)
    engine.subscribe_table(SubscriptionTable.from_arrow(pa.table({"filter": work.texts})))
    expected = [(i, row) for i, event in enumerate(work.events) for row in engine.match(event)]
    assert sorted(zip(events.tolist(), rows.tolist(), strict=True)) == expected


def test_a_reader_gets_one_copy_of_an_event_for_all_its_subscriptions() -> None:
    workload = Workload.make("ranges", 50, NetworkLoad(readers=2, events=10, seconds=0.1))
    workload.events, workload.readers = workload.events[:0], workload.readers[:0]
    assert sum(workload.copies([0, 1])) == 0
    workload = Workload.make("ranges", 2_000, NetworkLoad(readers=1, events=10, seconds=1.0))
    events, _ = workload.work.find_pairs(workload.work.events)
    assert len(events) > len(set(events.tolist()))  # some match two subscriptions of the reader
    assert sum(workload.copies([0])) == len(set(events.tolist()))


def test_distances_and_roles_of_brokers() -> None:
    tree = TOPOLOGIES["tree"]
    assert [tree.role(broker) for broker in range(7)] == ["inner", "entry", "inner", "home", "home", "home", "home"]
    assert [tree.hops(home) for home in tree.homes] == [1, 1, 3, 3]
    assert [topology.hops(topology.homes[0]) for topology in (ONE_BROKER, *TOPOLOGIES.values())] == [0, 1, 2, 1]


@pytest.mark.skipif(sys.platform != "linux", reason="not run: only Linux counts the bytes of a connection")
def test_bytes_of_a_link_are_those_of_its_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as near, server.accept()[0] as far:
            assert link_bytes(os.getpid(), port) == pytest.approx(0, abs=1)
            near.sendall(bytes(5_000))
            assert len(far.recv(5_000, socket.MSG_WAITALL)) == 5_000
            far.sendall(bytes(300))
            assert len(near.recv(300, socket.MSG_WAITALL)) == 300
            assert link_bytes(os.getpid(), port) == pytest.approx(5_300, abs=2)  # the kernel counts SYN as a byte
            assert link_bytes(os.getpid(), 1) == 0
    assert link_bytes(2**22 + 1, port) is None


def test_copies_that_do_not_come_stop_the_run() -> None:
    async def wait() -> None:
        arrivals = Arrivals(patience=0.01)
        arrivals.note(1, 0.0)
        await Run(None, lambda indices: [], [Audience(arrivals, [1, 1])], [0, 1]).settle()  # type: ignore[arg-type]

    with pytest.raises(InvariantError, match="1 copies are missing, 0 are too many"):
        asyncio.run(wait())


class Stalled:
    """A reader of whose subscriptions only some become active."""

    active = 7

    async def subscribe(self, messages: object) -> None:
        await asyncio.sleep(60)


def test_subscriptions_that_take_too_long_are_left_out() -> None:
    load, network = NetworkLoad(patience=0.01), RunningNetwork(ONE_BROKER, [], [])
    (figure,) = asyncio.run(_subscribe(network, [Stalled(), Stalled()], [None] * 50, load))  # type: ignore[list-item]
    assert figure.value is None
    assert figure.note == "left out: 14 of 50 subscriptions were active after 0.01 s"


def test_tables_have_a_line_for_each_system() -> None:
    rows = [
        Row("ranges", 1_000, "one broker", "network", 40_000.0, 1.0),
        Row("ranges", 1_000, "pair covering", "network", 30_000.0, 0.75),
        Row("ranges", 1_000, "pair covering", "network p50 1 hops", 4.0, 2.0),
        Row("ranges", 1_000, "pair covering", "network p99 1 hops", 9.0, 2.0),
        Row("topics", 0, "nats", "network", None, note="not run: nats-server is not installed"),
    ]
    speed, cost = network_sheets(rows)
    assert speed.names == ["ranges, 1k", "events/s"]
    assert speed.lines == [["one broker", "40.0k"], ["pair covering", "30.0k (0.750x)"]]
    assert cost.lines == [["one broker", ""], ["pair covering", "4.00, 9.00"]]
    assert network_notes(rows) == ["topics, nats: not run: nats-server is not installed"]


@pytest.mark.parametrize(
    ("options", "printed"),
    [
        ([], "(0.750x)"),
        (["--markdown"], "| pair covering | 30.0k (0.750x) |"),
        (["--json"], '"system":"pair covering","what":"network","rate":30000.0'),
    ],
)
def test_the_command_shows_what_was_measured(options: list[str], printed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    requests = list[object]()

    def measured(kinds: object, sizes: object, topologies: object, policies: object, *_: object) -> list[Row]:
        requests.extend([kinds, sizes, topologies, policies])
        return [Row("ranges", 1_000, "pair covering", "network", 30_000.0, 0.75)]

    monkeypatch.setattr("tamis_bench.network.measure.measure_network", measured)
    answer = CliRunner().invoke(
        app, ["network", "--sizes", "1k,2000", "--topology", "pair,tree", "--policy", "all", "--peer", "none", *options]
    )
    assert answer.exit_code == 0, answer.output
    assert requests == [["ranges"], [1_000, 2_000], ["pair", "tree"], list(POLICIES)]
    assert printed in answer.stdout


def test_the_command_names_the_topologies_there_are() -> None:
    answer = CliRunner().invoke(app, ["network", "--topology", "ring"])
    assert str(answer.exception) == "there is no topology 'ring'; choose from pair, line, tree"


@pytest.mark.parametrize("name", PEERS)
def test_one_server_and_a_pair_of_others(name: str) -> None:
    if find_program(PEERS[name].program) is None:
        pytest.skip(f"not run: {PEERS[name].not_installed}")
    rows = list(measure_peers([name], FEW))
    figures = {(row.system, row.what): row.rate for row in rows}
    assert list(figures) == [
        *((name, what) for what in ("network", "network cpu", "network p50 0 hops", "network p99 0 hops")),
        *((f"pair {name}", what) for what in ("network", "network cpu", "network p50 1 hops", "network p99 1 hops")),
        (f"pair {name}", "network cpu home"),
    ]
    assert all(rate is not None and rate >= 0 for rate in figures.values())


def test_a_server_that_is_not_installed_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    rows = list(measure_peers(list(PEERS), FEW))
    assert [(row.system, row.rate) for row in rows] == [("nats", None), ("mosquitto", None)]
    assert all(row.note.startswith("not run: ") for row in rows)
