"""The commands: serve with TLS, tokens, publish, subscribe; and what is said when the extra is missing."""

from __future__ import annotations

import asyncio
import json
import shutil
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

import tamis
from tamis.cli.main import app
from tamis.errors import MissingExtraError
from tamis.runtime import extra
from tests.server.forks import run_program
from tests.server.processes import HANGS, SERVE, BrokerProcess, running, wait_until


def tamis_command(*arguments: str, input: str | None = None) -> subprocess.CompletedProcess[str]:
    return run_program(list(arguments), input)


def test_publish_and_subscribe_in_the_shell(broker: BrokerProcess, tmp_path: Path) -> None:
    listening = subprocess.Popen(
        [sys.executable, "-c", SERVE, "subscribe", "shell >= 2", "--url", broker.url, "--count", "2", "--json"],
        stdout=subprocess.PIPE,
        text=True,
    )
    with tamis.connect(broker.url) as client:
        probe = client.subscribe("probe = 1", id="probe")
        assert probe.id == "probe"
    file = tmp_path / "events.jsonl"
    file.write_text('{"shell": 1}\n\n{"shell": 2}\n')
    try:

        def is_heard() -> bool:  # until it has subscribed, nothing reaches it
            done = tamis_command("publish", str(file), "--url", broker.url, "--json")
            assert (done.returncode, json.loads(done.stdout)) == (0, {"published": 2}), done.stderr
            return listening.poll() is not None

        wait_until(is_heard, "two events at `tamis subscribe`")
    finally:
        listening.kill()
        out, _ = listening.communicate()
    assert listening.returncode == 0
    assert [json.loads(line)["event"] for line in out.splitlines()] == [{"shell": 2}, {"shell": 2}]
    bad = tamis_command("publish", "-", "--url", broker.url, input='{"a": 1}\n{"a": NaN}\n')
    assert bad.returncode == 2
    assert "line 2" in bad.stderr


COMMANDS = [
    "dead-letters list s",
    "consume s --consumer c",
    "webhooks list",
    "serve links",
    "serve audit",
    "publish {}",
    "subscribe n>0",
]


@pytest.mark.parametrize("url", ["ftp://a", "nonsense", "http://h:99999", "http://"])
@pytest.mark.parametrize("command", [*COMMANDS, "apply RULES"])
def test_what_is_not_an_address_of_a_broker_is_refused(tmp_path: Path, command: str, url: str) -> None:
    (tmp_path / "rule.cql2").write_text("n > 0")
    words = [str(tmp_path) if word == "RULES" else word for word in command.split()]
    done = CliRunner().invoke(app, [*words, "--url", url])
    assert done.exit_code == 2
    assert "the address of a broker" in done.stderr or "Port out of range" in done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_a_broker_with_standbys_is_waited_for_and_each_address_is_named(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tamis.cli.broker.consume.PATIENCE", 0.2)
    monkeypatch.setattr("tamis.cli.broker.at_broker.TAKE_OVER_SECONDS", 0.4)
    monkeypatch.setenv("TAMIS_URL", "http://127.0.0.1:1 http://127.0.0.1:2")  # as click separates, or with a comma
    done = CliRunner().invoke(app, command.split())
    assert (done.exit_code, "within 0.4 s" in done.stderr) == (2, True), done.stderr
    if command.split()[0] not in ("publish", "subscribe"):
        assert "http://127.0.0.1:1: connection refused; http://127.0.0.1:2: connection refused" in done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_a_broker_that_is_away_is_named_soon_and_in_plain_words(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tamis.cli.broker.consume.PATIENCE", 0.2)
    monkeypatch.setattr("tamis.cli.broker.at_broker.FIRST_ANSWER_SECONDS", 0.3)
    done = CliRunner().invoke(app, [*command.split(), "--url", "http://127.0.0.1:1"])
    assert (done.exit_code, "connection refused" in done.stderr) == (2, True), done.stderr
    assert "urlopen" not in done.stderr
    assert ("trying again for" in done.stderr) == command.startswith("consume")
    within = {"consume": " within 0.2 s", "publish": " within 0.3 s", "subscribe": " within 0.3 s"}
    assert f"answer{within.get(command.split()[0], '')}: connection refused" in done.stderr.replace(
        "answered", "answer"
    )


def test_tokens_are_added_listed_and_revoked(tmp_path: Path) -> None:
    def token(*arguments: str) -> Result:
        return CliRunner().invoke(app, ["serve", "token", *arguments, "--data", str(tmp_path)])

    made = token("add", "alice", "--namespace", "acme", "--policy", "a = 1")
    assert made.stdout.startswith("tamis_")
    assert made.stdout.strip() not in (tmp_path / "tokens.json").read_text()
    listed = json.loads(token("list", "--json").stdout)
    assert [(token["name"], token["namespaces"], token["policy"]) for token in listed] == [("alice", ["acme"], "a = 1")]
    assert token("add", "bob", "--policy", "a =").exit_code == 2
    assert json.loads(token("revoke", "alice", "--json").stdout) == {"revoked": "alice"}
    absent = token("revoke", "alice")
    assert absent.exit_code == 1
    assert "no token is called 'alice'" in absent.stderr
    assert json.loads(token("add", "carol", "--json").stdout)["token"].startswith("tamis_")
    assert "exclude each other" in token("add", "dan", "--read-only", "--write-only").stderr


def test_a_broker_does_not_start_on_a_taken_port_or_in_the_open(broker: BrokerProcess, tmp_path: Path) -> None:
    taken = tamis_command("serve", "--port", str(broker.port), "--data", str(tmp_path / "a"))
    assert taken.returncode == 2
    assert "--port" in taken.stderr
    config = tmp_path / "broker.toml"
    config.write_text('host = "0.0.0.0"')
    in_the_open = tamis_command("serve", "--config", str(config))
    assert in_the_open.returncode == 2
    assert "tls_certificate" in in_the_open.stderr


@pytest.mark.skipif(shutil.which("openssl") is None, reason="not run: openssl makes the certificate of this test")
def test_tls(tmp_path: Path) -> None:
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    files = ["-keyout", str(tmp_path / "key.pem"), "-out", str(tmp_path / "cert.pem")]
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "2",
    ]
    subprocess.run([*command, *subject, *files], check=True, capture_output=True)
    config = f'tls_certificate = "{tmp_path}/cert.pem"\ntls_key = "{tmp_path}/key.pem"\ndata = "{tmp_path}/data"'
    broker = BrokerProcess(tmp_path, config)

    async def story() -> None:
        trust = ssl.create_default_context(cafile=str(tmp_path / "cert.pem"))
        async with tamis.connect(f"https://127.0.0.1:{broker.port}", ssl=trust, timeout=HANGS) as client:
            subscription = await client.subscribe("a = 1")
            await client.publish({"a": 1})
            assert (await anext(subscription)).event == {"a": 1}

    try:
        broker.start()
        asyncio.run(asyncio.wait_for(story(), HANGS))
    finally:
        broker.stop()


def test_the_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extra, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"tamis\[server\]"), tamis.connect("http://127.0.0.1:1"):
        pass


def test_one_process_at_a_time_has_the_data(tmp_path: Path) -> None:
    with running(BrokerProcess(tmp_path)) as (broker,):
        second = tamis_command("serve", "--port", "0", "--data", str(broker.directory / "data"))
        assert second.returncode == 2
        assert "another process" in second.stderr
