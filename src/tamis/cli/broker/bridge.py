"""``tamis bridge``: a broker and other messaging systems."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tamis.cli.options import Json, examples

if TYPE_CHECKING:
    from tamis.runtime.mqtt.bridge import BridgeCounts

__all__ = ["EPILOG", "app", "mqtt"]

EPILOG = examples(
    "tamis bridge mqtt --in 'sensors/#'",
    "tamis bridge mqtt --subscribe 'hot=celsius > 40' --out 'alerts/{id}'",
    "tamis bridge mqtt --mqtt mqtts://bridge@broker.example --in 'sensors/+/state' --url http://127.0.0.1:8080",
)

app = typer.Typer(help="Connect a broker with other messaging systems.", rich_markup_mode="rich", no_args_is_help=True)


@app.callback()
def bridge() -> None:
    """Connect a broker with other messaging systems."""


@app.command("mqtt", epilog=EPILOG)
def mqtt(
    mqtt: Annotated[str, typer.Option("--mqtt", metavar="URL", help="The MQTT 5 broker.")] = "mqtt://127.0.0.1:1883",
    url: Annotated[
        str, typer.Option("--url", "--broker", envvar="TAMIS_URL", help="Where tamis serve is.")
    ] = "http://127.0.0.1:8080",
    topics: Annotated[
        list[str] | None,
        typer.Option("--in", metavar="TOPIC", help="Topics whose messages become events; + and # work."),
    ] = None,
    subscribe: Annotated[
        list[str] | None,
        typer.Option("--subscribe", metavar="ID=FILTER", help="What goes out; may be given many times."),
    ] = None,
    out: Annotated[
        str, typer.Option("--out", metavar="TOPIC", help="Where it goes, such as 'alerts/{id}' or 'alerts/{place}'.")
    ] = "",
    name: Annotated[
        str, typer.Option(help="The bridge's name at both sides: what waits for it is kept under it.")
    ] = "bridge",
    namespace: Annotated[str, typer.Option(help="The namespace of events and subscriptions.")] = "default",
    token: Annotated[str | None, typer.Option(envvar="TAMIS_TOKEN", help="A token of the broker.")] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Allow the token to be sent unencrypted (http) to another machine.")
    ] = False,
    json: Json = False,
) -> None:
    """Topics in as events, matches out to topics, until Ctrl-C; at least once both ways (QoS 1)."""
    import asyncio

    from tamis.runtime.extra import demand_server

    demand_server("tamis bridge mqtt")
    from tamis.runtime.mqtt.bridge import BridgeCounts, BridgePlan, run_bridge

    filters = _filters(subscribe or [])
    plan = BridgePlan(mqtt, url, name, tuple(topics or ()), filters, out, namespace, token, insecure)
    counts, has_run = BridgeCounts(), False

    def greet() -> None:
        nonlocal has_run
        has_run = True
        _greet(plan.mqtt, plan.broker, json)

    try:
        asyncio.run(run_bridge(plan, counts, greet))
    finally:
        if has_run:  # what never ran has nothing to report
            _report(counts, json)


def _filters(given: list[str]) -> dict[str, str]:
    from tamis.errors import ModelError

    found = {}
    for text in given:
        id, equals, filter = text.partition("=")
        if not equals or not id.strip() or not filter.strip():
            raise ModelError(f"--subscribe: expected ID=FILTER, such as 'hot=celsius > 40'; got {text!r}")
        found[id.strip()] = filter.strip()
    return found


def _greet(mqtt: str, broker: str, json: bool) -> None:
    from tamis.cli.screen import output, write_json_lines

    if json:
        write_json_lines([{"ready": True}])
    else:
        output().say(f"{mqtt} <-> {broker}  (Ctrl-C ends it)")


def _report(counts: BridgeCounts, json: bool) -> None:
    from dataclasses import asdict

    from tamis.cli.screen import errors, write_json_lines

    shown = asdict(counts)
    if json:
        write_json_lines([shown])
        return
    told = ", ".join(f"{value:,} {name}" for name, value in shown.items() if isinstance(value, int))
    errors().say(f"{told}{'; last refusal: ' + shown['last_refusal'] if shown['last_refusal'] else ''}")
