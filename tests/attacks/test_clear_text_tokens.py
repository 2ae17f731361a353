"""Attack: a listener on the network reads a token that a client sends unencrypted, or a log shows one.

Clients, links, the bridge and Spark refuse to send a token over http:// to another machine unless that is allowed, and
no repr has a token in it.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

import tamis
from tamis.cli.main import app
from tamis.errors import ConnectionLostError, ModelError
from tamis.routing.edge.rights import Rights
from tamis.runtime.bridges.plan import BridgePlan
from tamis.runtime.broker.config import BrokerConfig, LinkConfig
from tamis.runtime.broker.tokens import Tokens
from tamis.runtime.client.client import Client
from tamis.runtime.client.http_calls import HttpCalls
from tamis.spark.broker.options import calls_of

SECRET = "tamis_very-secret"

FAR = ["http://192.0.2.7:8080", "ws://broker.example", "HTTP://broker.example", "http://127.0.0.1.example:8080"]


@pytest.mark.parametrize("url", FAR)
def test_a_token_is_not_sent_unencrypted(url: str) -> None:
    with pytest.raises(ModelError, match="unencrypted"):
        HttpCalls(url, SECRET)
    with pytest.raises(ModelError, match="unencrypted"):
        Client(url, token=SECRET)
    with pytest.raises(ModelError, match="unencrypted"), tamis.connect(url, token=SECRET):
        pass
    for link in (LinkConfig("n", url, token_file="f"), LinkConfig("n", url, token_env="E")):
        with pytest.raises(ModelError, match="unencrypted"):
            BrokerConfig(schema="s", links=(link,)).check()


def test_spark_and_the_commands_refuse_it_too() -> None:
    with pytest.raises(ModelError, match="unencrypted"):
        calls_of({"url": FAR[0], "token": SECRET})
    assert calls_of({"url": FAR[0], "token": SECRET, "insecure": "true"}).token == SECRET
    with pytest.raises(ModelError, match="insecure: expected"):
        calls_of({"url": FAR[0], "insecure": "maybe"})
    place = ["--url", FAR[0], "--token", SECRET]
    for words in (["publish", "{}"], ["subscribe", "TRUE"], ["serve", "audit"], ["bridge", "mqtt", "--in", "a"]):
        answer = CliRunner().invoke(app, [*words, *place])
        assert (answer.exit_code, "unencrypted" in answer.stderr) == (2, True), answer.output
        assert SECRET not in answer.output


@pytest.mark.parametrize("url", ["http://localhost:1", "http://127.0.0.5:1", "http://[::1]:1", "https://b.example"])
def test_loopback_and_tls_are_served(url: str) -> None:
    assert HttpCalls(url, SECRET).token == SECRET
    LinkConfig("n", url, token_file="f")
    BrokerConfig(schema="s", links=(LinkConfig("n", url, token_file="f"),)).check()


def test_it_can_be_allowed_and_without_a_token_there_is_nothing_to_read() -> None:
    assert HttpCalls(FAR[0], SECRET, insecure=True).token == SECRET
    assert HttpCalls(FAR[0]).token == ""
    BrokerConfig(schema="s", links=(LinkConfig("n", FAR[0], token_file="f", insecure=True),)).check()
    with pytest.raises(ConnectionLostError), tamis.connect("http://[::]:1", token=SECRET, insecure=True, timeout=0.2):
        pass


def test_no_repr_has_a_token(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path / "tokens.json")
    secret = tokens.add("alice")
    [token] = tokens.all()
    rights: Rights = token.rights()
    plan = BridgePlan("https://b", sources=("a",), token=secret)
    for holder in (HttpCalls("https://b", secret), plan, Client("https://b", token=secret), tokens, rights):
        assert secret not in repr(holder)
        assert token.sha256 not in repr(holder)
