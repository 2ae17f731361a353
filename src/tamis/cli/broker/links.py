"""``tamis serve links``: the links of a broker to others, added, removed and skipped while the broker runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from tamis.cli.broker.at_broker import HERE, Broker, at_broker
from tamis.cli.options import Json, examples

if TYPE_CHECKING:
    from tamis.runtime.client.http_calls import HttpCalls

__all__ = ["app"]

app = typer.Typer(
    help="List the links of a broker to others, or change them while it runs. Changes outlast a restart.",
    invoke_without_command=True,
    epilog=examples(
        "tamis serve links",
        "tamis serve links skip middle",
        "tamis serve links add south --to https://south.example:8443 --token-file south.token --resend-from middle",
        "tamis serve links remove middle",
        "TAMIS_TOKEN=... tamis serve links resume north --url https://south.example:8443",
    ),
)

Name = Annotated[str, typer.Argument(metavar="BROKER", help="The name of the broker at the other end.")]


@app.callback()
@at_broker
def links(
    context: typer.Context,
    broker: Broker = HERE,
    json: Json = False,
) -> None:
    """List the links: connected, in step with the other end, skipped, full, what waits, what was dropped."""
    if context.invoked_subcommand is None:
        _list(broker.calls(), json)


@app.command("add", epilog=examples("tamis serve links add south --to https://south.example:8443"))
@at_broker
def add(
    name: Name,
    to: Annotated[
        list[str] | None,
        typer.Option(metavar="URL", help="Its address, and those of its standbys. Without one the other end dials."),
    ] = None,
    policy: Annotated[str, typer.Option(help="What is announced on it: see docs/policies.md.")] = "covering",
    token_file: Annotated[
        str, typer.Option(metavar="NAME", help="A file in the folder links of the broker's data directory.")
    ] = "",
    ca_file: Annotated[str, typer.Option(metavar="NAME", help="The authority of its certificate; in the same.")] = "",
    when_full: Annotated[str, typer.Option(help="While it is full: refuse events, or drop the oldest.")] = "refuse",
    namespace: Annotated[list[str] | None, typer.Option(help="A namespace that may cross; all by default.")] = None,
    resend_from: Annotated[
        str, typer.Option(metavar="BROKER", help="A dead link: what waits for it is sent over this one, too.")
    ] = "",
    broker: Broker = HERE,
    json: Json = False,
) -> None:
    """Add a link. Do the same at the other broker; links form a tree, never a ring."""
    urls = to or []
    settings: dict[str, Any] = {"policy": policy, "when_full": when_full, "namespaces": namespace or []}
    settings |= {"url": urls[0], "standbys": urls[1:]} if urls else {}
    files = {"token_file": token_file, "ca_file": ca_file, "resend_from": resend_from}
    settings |= {field: value for field, value in files.items() if value}
    calls = broker.calls()
    answer = _change(calls, "PUT", name, settings)
    if not json and resend_from:
        _say(f"{answer['resent']:,} events that wait for {resend_from} are sent over it")
    _list(calls, json)


@app.command("remove", epilog=examples("tamis serve links remove middle"))
@at_broker
def remove(name: Name, broker: Broker = HERE, json: Json = False) -> None:
    """Remove a link. Events that wait for it are dropped and counted; what its neighbour asked for is withdrawn."""
    calls = broker.calls()
    dropped = _change(calls, "DELETE", name)["dropped"]
    if not json:
        _say(f"removed; {dropped:,} events that waited were dropped")
    _list(calls, json)


@app.command("skip", epilog=examples("tamis serve links skip middle"))
@at_broker
def skip(name: Name, broker: Broker = HERE, json: Json = False) -> None:
    """Send no event over a link and wait for none of its answers; what it is not sent is counted."""
    calls = broker.calls()
    _change(calls, "POST", f"{name}/skip")
    _list(calls, json)


@app.command("resume", epilog=examples("tamis serve links resume middle"))
@at_broker
def resume(name: Name, broker: Broker = HERE, json: Json = False) -> None:
    """Send events over a link again; clients behind it are told of the gap."""
    calls = broker.calls()
    _change(calls, "POST", f"{name}/resume")
    _list(calls, json)


def _change(calls: HttpCalls, method: str, target: str, settings: dict[str, Any] | None = None) -> dict[str, Any]:
    import msgspec

    from tamis.errors import ModelError

    name, _, action = target.rpartition("/") if method == "POST" else (target, "", "")
    if not name.strip() or not name.isprintable():
        raise ModelError(f"BROKER: expected the name of the broker at the other end, got {name!r}")
    path = f"/v1/links/{quote(name, safe='')}" + (f"/{action}" if action else "")
    body = msgspec.json.encode(settings or {})
    answer: dict[str, Any] = msgspec.json.decode(calls.call(method, path, body=body, may_repeat=False))
    return answer


def _say(text: str) -> None:
    from tamis.cli.screen import output

    output().say(text)


def _list(calls: HttpCalls, json: bool) -> None:
    import msgspec

    from tamis.cli.screen import make_table, output, plain, write_json

    links = msgspec.json.decode(calls.call("GET", "/v1/links"))
    if json:
        write_json(links)
        return
    states = ("connected", "in_step", "confirmed", "skipped", "full")
    columns = ("when_full", "waiting", "dropped", "ring")
    table = make_table("link", "state", *columns, right=("waiting", "dropped"))
    for link in links["links"]:
        state = ", ".join(name for name in states if link[name]) or "not connected"
        table.add_row(plain(link["link"]), state, *(plain(str(link[name])) for name in columns))
    output().print(table)
