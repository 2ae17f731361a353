"""Attack: the holder of a link's token uses it as a client, and reads or publishes in every namespace.

A token for a link opens that link and nothing else: no HTTP endpoint, no client socket. A client's token opens no link,
and a token that is bound to namespaces does not open a link to more of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from tamis.cli.main import app
from tamis.errors import RefusedError
from tamis.runtime.broker.tokens import Tokens
from tamis.web.app import ENDPOINTS
from tests.attacks.callers import Guarded, guarded_broker

CONFIG = """schema = "{schema}"
[[links]]
name = "south"
namespaces = ["open"]
[[links]]
name = "west"
"""


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    directory = tmp_path_factory.mktemp("links")
    (directory / "schema.json").write_text('{"attributes": {"n": {"type": "number"}}}')
    with guarded_broker(directory, CONFIG.format(schema=directory / "schema.json")) as broker:
        broker.add("alice", is_admin=True)
        broker.add("south", broker="south", namespaces=("open",))
        broker.add("south-secret", broker="south", namespaces=("secret",))
        broker.add("west", broker="west")
        broker.add("west-open", broker="west", namespaces=("open",))
        yield broker


def knock(guarded: Guarded, who: str, query: str) -> str:
    """Open a socket; return why it was closed, "" when it stays open for a second."""

    async def story() -> str:
        url = f"ws://127.0.0.1:{guarded.broker.port}/v1/connect?{query}"
        headers = {"Authorization": f"Bearer {guarded.secrets[who]}"}
        async with connect(url, additional_headers=headers, proxy=None) as socket:
            try:
                async with asyncio.timeout(1):
                    while True:
                        await socket.recv()
            except TimeoutError:
                return ""
            except ConnectionClosed as closed:
                return "" if closed.rcvd is None or closed.rcvd.code != 1008 else closed.rcvd.reason

    return asyncio.run(story())


@pytest.mark.parametrize(("method", "path"), [(method, path) for method, path, _ in ENDPOINTS if path != "/healthz"])
def test_a_link_token_opens_no_endpoint(guarded: Guarded, method: str, path: str) -> None:
    answer = guarded.ask("west", path.replace("{id}", "a"), method, {} if method == "POST" else None)
    assert answer.status == 403
    assert "is for the link of broker 'west'" in answer.json["error"]


def test_a_link_token_opens_no_client_socket(guarded: Guarded) -> None:
    assert "is for the link of broker" in knock(guarded, "west", "client=spy")


@pytest.mark.parametrize(
    ("who", "broker", "problem"),
    [
        ("alice", "south", "made for broker 'south'"),
        ("west", "south", "made for broker 'south'"),
        ("south-secret", "south", "the link has other `namespaces`"),
        ("west-open", "west", "the link has other `namespaces`"),
        ("south", "south", ""),
        ("west", "west", ""),
    ],
)
def test_a_link_is_opened_by_its_own_token(guarded: Guarded, who: str, broker: str, problem: str) -> None:
    reason = knock(guarded, who, f"broker={broker}")
    assert problem in reason
    assert bool(problem) == bool(reason)


def test_the_command_binds_a_link_token_to_the_namespaces_of_the_link(tmp_path: Path) -> None:
    config = tmp_path / "broker.toml"
    config.write_text("data = 'data'\nschema = 's'\n[[links]]\nname = 'south'\nnamespaces = ['open']\n")
    made = CliRunner().invoke(app, ["serve", "token", "add", "link", "--broker", "south", "--config", str(config)])
    assert made.exit_code == 0, made.output
    [token] = Tokens(tmp_path / "data" / "tokens.json").all()
    assert (token.broker, token.namespaces) == ("south", ("open",))


def test_a_link_token_has_no_rights_of_clients(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path / "tokens.json")
    for fields in ({"is_admin": True}, {"policy": "n > 1"}, {"may_publish": False}, {"may_subscribe": False}):
        with pytest.raises(RefusedError, match="a token for a link"):
            tokens.add("link", broker="south", **fields)
    assert tokens.all() == []
