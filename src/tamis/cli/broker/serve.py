"""``tamis serve``: a broker on this machine, or one of a network; and its tokens."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tamis.cli.broker import maintenance
from tamis.cli.broker.audit import EPILOG as AUDIT_EPILOG
from tamis.cli.broker.audit import audit
from tamis.cli.broker.links import app as links
from tamis.cli.failures import NO
from tamis.cli.options import Json, examples

if TYPE_CHECKING:
    from tamis.runtime.broker.config import BrokerConfig

__all__ = ["EPILOG", "app"]

EPILOG = examples(
    "tamis serve",
    'curl -d \'{"filter": "mag >= 5", "id": "strong"}\' http://127.0.0.1:8080/v1/subscriptions',
    "curl -d '{\"mag\": 6.1}' http://127.0.0.1:8080/v1/events",
    "curl -N 'http://127.0.0.1:8080/v1/subscriptions/strong/events?ack=auto'",
    "tamis serve --config broker.toml",
    "tamis serve token add alice --namespace quakes",
    "tamis serve audit",
    "tamis serve links skip north",
    "tamis serve backup /backups/today",
    "tamis serve --store postgresql://tamis@db.example/tamis --standby",
    "tamis serve --traces http://127.0.0.1:4318 --trace-share 0.01",
)

app = typer.Typer(
    help="Run a broker: publish and subscribe with curl or Python; every event is on disk before it is confirmed.",
    epilog=EPILOG,
    rich_markup_mode="rich",
    invoke_without_command=True,
)
tokens = typer.Typer(
    help="Control access to a broker: add, list and revoke tokens.",
    no_args_is_help=True,
    epilog=examples("tamis serve token add alice --namespace quakes", "tamis serve token revoke alice"),
)
app.add_typer(tokens, name="token")
app.command("audit", epilog=AUDIT_EPILOG)(audit)
app.add_typer(links, name="links")
for command in (
    maintenance.backup,
    maintenance.restore,
    maintenance.check,
    maintenance.compact,
    maintenance.migrate,
):
    app.command(command.__name__, epilog=maintenance.EPILOGS[command.__name__])(command)

Config = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="A TOML file: links, TLS, tokens, limits, tenants.")
]
Data = Annotated[
    Path | None, typer.Option("--data", metavar="DIR", help="Where the broker keeps its state; tamis-data otherwise.")
]


@app.callback()
def serve(
    context: typer.Context,
    config: Config = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="The port, 8080 otherwise; 0 takes a free one.")
    ] = None,
    data: Data = None,
    store: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="postgresql://user@host:port/database holds the state, not --data; no password in it."
        ),
    ] = None,
    standby: Annotated[
        bool, typer.Option("--standby", help="Wait while another broker is alive in the same --store, then take over.")
    ] = False,
    name: Annotated[str | None, typer.Option(help="The name of this broker for other brokers.")] = None,
    schema: Annotated[
        Path | None, typer.Option("--schema", metavar="FILE", help="The attributes and their types; learned otherwise.")
    ] = None,
    snapshot: Annotated[
        str | None,
        typer.Option(
            "--snapshot",
            metavar="LOCATION",
            help="A pipeline's snapshots, a directory or URI: the broker has the newest's subscriptions.",
        ),
    ] = None,
    traces: Annotated[
        str | None,
        typer.Option(metavar="URL", help="An OpenTelemetry collector gets traces of events: http://127.0.0.1:4318."),
    ] = None,
    trace_share: Annotated[
        float | None, typer.Option(min=0, max=1, help="The share of events that is traced, all of them otherwise.")
    ] = None,
    json: Json = False,
) -> None:
    """Run a broker until Ctrl-C: on this machine only, without tokens, state in ./tamis-data."""
    if context.invoked_subcommand is not None:
        return
    import asyncio

    from tamis.runtime.extra import demand_server

    demand_server("tamis serve")
    from tamis.runtime.traces.opening import demand_exporter
    from tamis.web.serving import serve as run

    options: dict[str, object] = {"port": port, "data": data, "name": name, "schema": schema, "snapshot": snapshot}
    options |= {"store": store, "standby": standby or None, "traces": traces, "trace_share": trace_share}
    settings = _config(config, options)
    demand_exporter(settings)
    _compile_kernels()
    asyncio.run(run(settings, lambda url: _greet(url, json), lambda url: _wait(url, json)))


@tokens.command(
    "add",
    epilog=examples(
        "tamis serve token add alice --namespace quakes",
        'tamis serve token add screen --read-only --policy "public = TRUE" --days 30',
        "tamis serve token add west --broker west --config broker.toml",
    ),
)
def add(
    name: Annotated[str, typer.Argument(help="The name of the token; shown as the owner of subscriptions.")],
    namespace: Annotated[list[str] | None, typer.Option(help="A namespace the token may use; all by default.")] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="The token may subscribe, not publish.")] = False,
    write_only: Annotated[bool, typer.Option("--write-only", help="The token may publish, not subscribe.")] = False,
    admin: Annotated[
        bool, typer.Option("--admin", help="The token may read statistics and end any subscription.")
    ] = False,
    policy: Annotated[
        str | None, typer.Option(metavar="FILTER", help="The token gives access only to events that match.")
    ] = None,
    days: Annotated[float | None, typer.Option(min=0, help="Days until the token expires.")] = None,
    broker: Annotated[
        str, typer.Option(help="The token is only for the link of the broker with this name and its namespaces.")
    ] = "",
    config: Config = None,
    data: Data = None,
    json: Json = False,
) -> None:
    """Make a token and print it, this once. A running broker knows it at once."""
    import time

    from tamis.cli.screen import write_json
    from tamis.model.language.parse import parse
    from tamis.runtime.broker.tokens import tokens_of

    if read_only and write_only:
        raise typer.BadParameter("--read-only and --write-only exclude each other: such a token could do nothing")
    if policy is not None:
        parse(policy)
    settings = _config(config, {"data": data})
    of_link = next((link.namespaces for link in settings.links if broker and link.name == broker), ())
    secret = tokens_of(settings).add(
        name,
        namespaces=tuple(namespace or of_link) or None,
        may_publish=not read_only,
        may_subscribe=not write_only,
        is_admin=admin,
        policy=policy,
        expires=None if days is None else time.time() + days * 86_400,
        broker=broker,
    )
    if json:
        write_json({"name": name, "token": secret})
    else:
        print(secret)


@tokens.command("list", epilog=examples("tamis serve token list --config broker.toml"))
def list_tokens(config: Config = None, data: Data = None, json: Json = False) -> None:
    """List the tokens, without their secrets: the broker stores only hashes."""
    import msgspec

    from tamis.cli.screen import output, write_json
    from tamis.runtime.broker.tokens import tokens_of

    tokens = tokens_of(_config(config, {"data": data})).all()
    if json:
        write_json([{**msgspec.to_builtins(entry), "sha256": entry.sha256[:8]} for entry in tokens])
        return
    for entry in tokens:
        where = "all namespaces" if entry.namespaces is None else ", ".join(entry.namespaces)
        output().say(
            f"{entry.name}  {where}{'  admin' * entry.is_admin}{f'  broker {entry.broker}' * bool(entry.broker)}"
        )


@tokens.command(
    "revoke",
    epilog=examples("tamis serve token revoke alice", "tamis serve token revoke --jti 7c9e6679 --data tamis-data"),
)
def revoke(
    name: Annotated[str, typer.Argument(help="The name of a token; with --jti or --jwt, the identifier of a JWT.")],
    jti: Annotated[bool, typer.Option("--jti", help="NAME is the `jti` of a JWT of another issuer.")] = False,
    jwt: Annotated[bool, typer.Option("--jwt", help="NAME is the SHA-256 of a JWT, as hexadecimal digits.")] = False,
    config: Config = None,
    data: Data = None,
    json: Json = False,
) -> None:
    """Take a token back; clients that are connected with it are cut off within seconds. Exit code 1: there was none."""
    from tamis.cli.screen import errors, output, write_json
    from tamis.runtime.broker.tokens import jti_digest, tokens_of

    tokens = tokens_of(_config(config, {"data": data}))
    if jti or jwt:
        tokens.revoke_foreign(f"jti {name}" if jti else f"jwt {name}", jti_digest(name) if jti else name.lower())
    elif not tokens.revoke(name):
        errors().say(f"no token is called {name!r}; `tamis serve token list` shows their names", "red")
        raise typer.Exit(NO)
    if json:
        write_json({"revoked": name})
    else:
        output().say(f"revoked {name}")


def _config(path: Path | None, options: dict[str, object]) -> BrokerConfig:
    import msgspec

    from tamis.runtime.broker.config import BrokerConfig, read_config

    settings = BrokerConfig() if path is None else read_config(path)
    changes = {
        key: str(value) if isinstance(value, Path) else value for key, value in options.items() if value is not None
    }
    return msgspec.structs.replace(settings, **changes)


def _wait(url: str, json: bool) -> None:
    from tamis.cli.screen import output, write_json

    if json:
        write_json({"standby": url})
    else:
        output().say(f"standby at {url}: it serves when no other broker is alive in the store  (Ctrl-C ends it)")


def _compile_kernels() -> None:
    """Compile what the broker would otherwise compile while it answers requests."""
    from tamis.cli.kernels import Use, compile_kernels
    from tamis.cli.screen import errors
    from tamis.engine.warm_up import are_kernels_compiled
    from tamis.kernels.cache import mark_path

    if not are_kernels_compiled():
        often = "once" if mark_path() else "at each start, unless NUMBA_CACHE_DIR names a directory that can be written"
        errors().say(f"compiling kernels: a minute or two, {often} ...", "dim")
        compile_kernels(Use.BROKER)


def _greet(url: str, json: bool) -> None:
    from tamis.cli.screen import output, write_json

    if json:
        write_json({"url": url})
    else:
        output().say(f"tamis broker at {url}  (Ctrl-C ends it)")
        output().say(f'subscribe:  curl -d \'{{"filter": "mag >= 5", "id": "strong"}}\' {url}/v1/subscriptions')
        output().say(f"publish:    curl -d '{{\"mag\": 6.1}}' {url}/v1/events")
        output().say(f"read:       curl -N '{url}/v1/subscriptions/strong/events?ack=auto'")
