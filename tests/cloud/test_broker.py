"""A broker that has the subscriptions of a snapshot in an object store, and follows its newer versions."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

import tamis
from tamis.engine.snapshot import object_store
from tamis.runtime.client.http_calls import HttpCalls
from tests.cloud.servers import BUCKET, S3Server, environment
from tests.server.processes import BrokerProcess, ask, running, wait_until

SCHEMA = tamis.Schema({"price": tamis.Number()})


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    running_server = S3Server()
    yield running_server
    running_server.close()


@pytest.fixture
def uri(server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A place in a bucket, which this process and the broker can reach."""
    for name, value in environment(server.url, tmp_path / "cache").items():
        monkeypatch.setenv(name, value)
    object_store.open_store.cache_clear()
    yield f"s3://{BUCKET}/{uuid.uuid4().hex}"
    object_store.open_store.cache_clear()


def save(uri: str, **filters: str) -> None:
    engine = tamis.Engine(SCHEMA)
    for id, text in filters.items():
        engine.subscribe(text, id=id)
    engine.save(uri)


def prices_at(broker: BrokerProcess, id: str) -> list[float]:
    return [message["event"]["price"] for message in HttpCalls(broker.url).read_log(id).messages]


def test_a_broker_follows_a_snapshot_in_a_store(uri: str, tmp_path: Path) -> None:
    save(uri, low="price < 15", gone="price > 0")
    config = f'data = "{tmp_path / "data"}"\nsnapshot = "{uri}"\n'
    with running(BrokerProcess(tmp_path / "broker", config)) as (broker,):
        listed = ask(f"{broker.url}/v1/subscriptions").json["subscriptions"]
        assert sorted((row["id"], row["owner"]) for row in listed) == [("gone", "snapshot"), ("low", "snapshot")]
        ask(f"{broker.url}/v1/events", "POST", [{"price": 12}, {"price": 18}])
        assert (prices_at(broker, "low"), prices_at(broker, "gone")) == ([12], [12, 18])

        save(uri, low="price < 11", new="price > 15")
        # The broker takes the new subscriptions first.
        wait_until(lambda: ask(f"{broker.url}/v1/subscriptions/gone").status == 404, "the newer version")
        ask(f"{broker.url}/v1/events", "POST", [{"price": 10}, {"price": 14}, {"price": 16}])
        assert (prices_at(broker, "low"), prices_at(broker, "new")) == ([12, 10], [16])

        broker.kill()
        broker.start().wait_until_ready()
        assert prices_at(broker, "low") == [12, 10]
    assert (tmp_path / "cache" / "versions").is_dir()  # the files came through the cache of the environment


@pytest.mark.parametrize(
    ("place", "problem"),
    [
        ("", "there is no saved engine in it"),
        ("/v000009", "there is no such version"),
    ],
)
def test_a_place_without_a_version_ends_the_start(uri: str, tmp_path: Path, place: str, problem: str) -> None:
    config = f'data = "{tmp_path / "data"}"\nsnapshot = "{uri}{place}"\n'
    broker = BrokerProcess(tmp_path / "broker", config).start()
    assert broker.process is not None
    assert broker.process.wait(120) == 2
    assert problem in broker.log()
    assert f"{uri}{place}" in broker.log()
    assert broker.stop() == 2  # and no traceback
