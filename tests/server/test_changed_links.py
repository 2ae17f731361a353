"""Links that are added and removed while brokers run: a broker that is gone for ever stops none of the others."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from tamis.cli.main import app
from tamis.node import records
from tamis.runtime.broker.config import LinkConfig
from tamis.runtime.links.overrides import LinkOverride, settle_links
from tests.server.processes import BrokerProcess, a_line, ask, running, wait_until


def command(broker: BrokerProcess, *words: str) -> dict[str, Any]:
    """Run `tamis serve links`; return the links by name."""
    shown = CliRunner().invoke(app, ["serve", "links", *words, "--url", broker.url, "--json"])
    assert shown.exit_code == 0, shown.output
    return {link["link"]: link for link in json.loads(shown.output)["links"]}


def publish(broker: BrokerProcess, attribute: str, numbers: range) -> None:
    for number in numbers:
        assert ask(f"{broker.url}/v1/events", "POST", {attribute: number}).status == 200


def got(broker: BrokerProcess, attribute: str) -> list[int]:
    messages = ask(f"{broker.url}/v1/subscriptions/{attribute}/log?limit=1000").json["messages"]
    return [message["event"][attribute] for message in messages]


def wait_for(broker: BrokerProcess, attribute: str, count: int) -> None:
    """Wait until a subscription has that many events, and see that each came once, in order."""
    wait_until(lambda: len(got(broker, attribute)) >= count, f"{count} events at {broker.directory.name}", 60)
    assert got(broker, attribute) == list(range(count))


def subscribe(broker: BrokerProcess, attribute: str) -> None:
    made = ask(f"{broker.url}/v1/subscriptions", "POST", {"id": attribute, "filter": f"{attribute} >= 0"})
    assert made.status == 201
    place = f"{broker.url}/v1/subscriptions/{attribute}"
    wait_until(lambda: ask(place).json["state"] == "active", f"subscription {attribute}")


def wait_for_link(broker: BrokerProcess, link: str, what: str) -> None:
    wait_until(lambda: command(broker)[link][what], f"a link to {link} that is {what}", 60)


def test_the_neighbours_of_a_broker_that_is_gone_are_joined_by_hand(tmp_path: Path) -> None:
    a, b, c = a_line(tmp_path, "abc")
    with running(a, b, c):
        subscribe(c, "n")
        subscribe(a, "mag")
        publish(a, "n", range(10))
        publish(c, "mag", range(10))
        wait_for(c, "n", 10)
        wait_for(a, "mag", 10)
        b.kill()
        shutil.rmtree(tmp_path / "b" / "data")
        publish(a, "n", range(10, 30))  # these wait at a, and those at c, for the dead broker
        publish(c, "mag", range(10, 30))
        wait_until(lambda: not command(a)["b"]["connected"] and not command(c)["b"]["connected"], "a broken link")
        command(a, "add", "c", "--resend-from", "b")
        command(c, "add", "a", "--to", a.url, "--resend-from", "b")
        wait_for_link(a, "c", "in_step")
        wait_for_link(c, "a", "in_step")
        assert list(command(a, "remove", "b")) == ["c"]
        assert list(command(c, "remove", "b")) == ["a"]
        wait_for_link(a, "c", "confirmed")
        wait_for_link(c, "a", "confirmed")
        wait_for(c, "n", 30)
        wait_for(a, "mag", 30)
        for broker in (a, c):
            broker.kill()
            broker.start()
        for broker in (a, c):
            broker.wait_until_ready()
        assert list(command(a)) == ["c"]  # though the files of both still name b
        assert "link b: in the configuration file, and removed" in a.log()
        publish(a, "n", range(30, 40))
        publish(c, "mag", range(30, 40))
        wait_for(c, "n", 40)
        wait_for(a, "mag", 40)
        deeds = [(deed["what"], deed["subject"], deed["detail"]) for deed in ask(f"{a.url}/v1/audit").json["deeds"]]
        assert ("link add", "c", "20 events of link b are sent over it") in deeds
        assert ("link remove", "b", "20 events that waited are dropped") in deeds


def test_a_link_that_is_removed_and_added_again_repeats_nothing(tmp_path: Path) -> None:
    a, b = a_line(tmp_path, "ab")
    with running(a, b):
        subscribe(b, "n")
        subscribe(a, "mag")
        publish(a, "n", range(5))
        publish(b, "mag", range(5))
        wait_for(b, "n", 5)
        wait_for(a, "mag", 5)
        assert command(a, "remove", "b") == {}
        publish(b, "mag", range(5, 8))  # b does not know yet, and keeps them
        assert not command(b)["a"]["connected"] or wait_until(lambda: not command(b)["a"]["connected"], "a cut")
        a.kill()
        a.start().wait_until_ready()
        assert command(a) == {}
        assert ask(f"{a.url}/v1/subscriptions/mag").json["state"] == "active"
        command(a, "add", "b")
        wait_for_link(a, "b", "confirmed")
        wait_for_link(b, "a", "confirmed")
        wait_for(a, "mag", 8)
        publish(a, "n", range(5, 7))
        wait_for(b, "n", 7)
        a.kill()
        a.config = a.config.replace('name = "b"', 'name = "b"\nwhen_full = "drop"')
        a.start().wait_until_ready()
        assert command(a)["b"]["when_full"] == "drop"  # the file was changed later, so the file counts
        publish(a, "n", range(7, 9))
        wait_for(b, "n", 9)


@pytest.mark.parametrize(
    ("name", "settings", "status", "words"),
    [
        ("b", {}, 409, "there is a link 'b' already"),
        ("a", {}, 400, "names of brokers differ"),
        ("c", {"policy": "nonsense"}, 400, "nonsense"),
        ("c", {"token_file": "../../etc/shadow"}, 400, "expected the name of a file in"),
        ("c", {"ca_file": "/etc/passwd"}, 400, "expected the name of a file in"),
        ("c", {"token_env": "HOME"}, 400, "token_env is for the configuration file"),
        ("c", {"url": "http://other.example", "token_file": "t"}, 400, "other.example"),
        ("c", {"url": "ftp://a"}, 400, "link 'c': expected the address of a broker, such as https://"),
        ("c", {"url": "nonsense"}, 400, "got 'nonsense'"),
        ("c", {"url": "http://h:99999"}, 400, "Port out of range"),
        ("c", {"url": "http://"}, 400, "got 'http://'"),
        ("c", {"url": "http://a", "standbys": ["http://b:0"]}, 400, "got 'http://b:0'"),
        ("c", {"url": "https://a", "token_file": "missing"}, 400, "token_file: there is no file 'missing' in "),
        ("c", {"url": "https://a", "ca_file": "missing"}, 400, "ca_file: there is no file 'missing' in "),
        ("c", {"resend_from": "d"}, 404, "there is no link 'd'"),
        ("c", {"resend_from": 1}, 400, "expected the name of a link"),
        ("c", {"uri": "x"}, 400, "uri"),
        ("c:d", {}, 400, "have no colon"),
    ],
)
def test_what_is_wrong_with_a_new_link_is_said(
    lonely: BrokerProcess, name: str, settings: dict[str, Any], status: int, words: str
) -> None:
    answer = ask(f"{lonely.url}/v1/links/{name}", "PUT", settings)
    assert (answer.status, words in answer.json["error"]) == (status, True), answer.json
    assert list(command(lonely)) == ["b"]


@pytest.mark.parametrize("action", ["add", "remove", "skip", "resume"])
def test_a_link_without_a_name_is_refused_before_the_broker_is_asked(action: str) -> None:
    done = CliRunner().invoke(app, ["serve", "links", action, "", "--url", "http://127.0.0.1:1"])
    assert (done.exit_code, "BROKER: expected the name of the broker at the other end" in done.stderr) == (2, True)


def test_an_address_that_an_earlier_release_took_does_not_keep_the_broker_from_starting() -> None:
    bad = LinkConfig("south", "ftp://a", standbys=("http://b",), token_file="t")
    record = {records.LINK_OVERRIDE.key("south"): msgspec.json.encode(LinkOverride(bad, None))}
    settled = settle_links([], record, "data")
    assert settled.links == {"south": LinkConfig("south")}
    assert "it is not dialled: link 'south': expected the address of a broker" in settled.notes[0]


@pytest.fixture(scope="module")
def lonely(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A broker with a link to another that does not run."""
    with running(a_line(tmp_path_factory.mktemp("lonely"), "ab")[0]) as (process,):
        yield process


def test_a_broker_without_a_schema_has_no_links(tmp_path: Path) -> None:
    with running(BrokerProcess(tmp_path)) as (broker,):
        answer = ask(f"{broker.url}/v1/links/b", "PUT", {})
        assert (answer.status, answer.json["error"][:50]) == (400, "brokers that are linked need the same schema: set ")
        assert ask(f"{broker.url}/v1/links/b", "DELETE").status == 404


def test_the_link_that_closes_a_ring_is_refused_by_name(tmp_path: Path) -> None:
    a, b, c = a_line(tmp_path, "abc")
    with running(a, b, c):
        subscribe(c, "n")
        publish(a, "n", range(5))
        wait_for(c, "n", 5)
        answer = ask(f"{c.url}/v1/links/a", "PUT", {"url": a.url})
        assert answer.status == 409
        assert "the link to 'a' closes a ring of brokers (c - b - a - c): remove one" in answer.json["error"]
        for broker, other, dials in ((a, "c", ""), (c, "a", f'url = "{a.url}"\n')):
            broker.kill()
            broker.config += f'\n[[links]]\nname = "{other}"\n{dials}'
            broker.start()
        for broker in (a, c):
            broker.wait_until_ready()
        wait_until(lambda: command(a)["c"]["ring"] == "a - b - c - a", "a refused link at a")
        wait_until(lambda: command(c)["a"]["ring"] == "c - b - a - c", "a refused link at c")
        assert ask(f"{a.url}/v1/links/c/skip", "POST", {}).status == 409
        publish(a, "n", range(5, 10))
        subscribe(a, "mag")
        publish(c, "mag", range(3))
        wait_for(c, "n", 10)
        wait_for(a, "mag", 3)
        command(b, "remove", "c")
        command(c, "remove", "b")
        wait_for_link(a, "c", "confirmed")
        wait_for_link(c, "a", "confirmed")
        assert (command(a)["c"]["ring"], command(c)["a"]["ring"]) == ("", "")
        publish(a, "n", range(10, 12))
        wait_for(c, "n", 12)
        deeds = [(deed["what"], deed["subject"]) for deed in ask(f"{a.url}/v1/audit").json["deeds"]]
        assert ("link refuse", "c") in deeds


def test_three_brokers_that_start_in_a_ring_work_as_a_tree(tmp_path: Path) -> None:
    a, b, c = a_line(tmp_path, "abc")
    a.config += '\n[[links]]\nname = "c"\n'
    c.config += f'\n[[links]]\nname = "a"\nurl = "{a.url}"\n'
    with running(a, b, c):
        brokers = {"a": a, "b": b, "c": c}

        def refused() -> set[tuple[str, str]]:
            rings = {
                (name, link) for name, broker in brokers.items() for link, how in command(broker).items() if how["ring"]
            }
            return rings if len(rings) == 2 else set()

        [link, back] = wait_until(refused, "a link that both ends refuse")
        assert link == back[::-1]
        for broker in (a, b, c):
            subscribe(broker, "n")
        for number, broker in enumerate((a, b, c)):
            publish(broker, "n", range(number, number + 1))
        for name, broker in brokers.items():
            wait_until(lambda at=broker: len(got(at, "n")) >= 3, f"three events at {name}")
            assert sorted(got(broker, "n")) == [0, 1, 2]
