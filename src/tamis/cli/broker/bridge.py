"""``tamis bridge``: a broker and other messaging systems."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tamis.cli.options import Json, Metrics, examples

if TYPE_CHECKING:
    from tamis.runtime.bridges.plan import BridgeCounts, BridgePlan
    from tamis.runtime.bridges.system import System
    from tamis.runtime.broker_addresses import BrokerAddresses

__all__ = ["KAFKA_EPILOG", "MQTT_EPILOG", "NATS_EPILOG", "app", "kafka", "mqtt", "nats"]

NATS_EPILOG = examples(
    "tamis bridge nats --in 'sensors.>' --dry-run",
    "tamis bridge nats --in 'sensors.>' --dead-letters refused.jsonl",
    "tamis bridge nats --subscribe 'hot=celsius > 40' --out 'alerts.{id}'",
    "tamis bridge nats --nats tls://a.example --nats tls://b.example --creds bridge.creds --stream EVENTS --in '>'",
)
KAFKA_EPILOG = examples(
    "tamis bridge kafka --in sensors --dry-run",
    "tamis bridge kafka --kafka a.example:9092,b.example:9092 --in sensors --dead-letters refused.jsonl",
    "tamis bridge kafka --subscribe 'hot=celsius > 40' --out 'alerts-{id}'",
    "tamis bridge kafka --in sensors --option security.protocol=SASL_SSL --option sasl.mechanisms=PLAIN",
)
MQTT_EPILOG = examples(
    "tamis bridge mqtt --in 'sensors/#'",
    "tamis bridge mqtt --subscribe 'hot=celsius > 40' --out 'alerts/{id}'",
    "tamis bridge mqtt --mqtt mqtts://bridge@broker.example --in 'sensors/+/state' --url http://127.0.0.1:8080",
)

app = typer.Typer(help="Connect a broker with other messaging systems.", rich_markup_mode="rich", no_args_is_help=True)

Url = Annotated[
    list[str],
    typer.Option(
        "--url",
        "--broker",
        envvar="TAMIS_URL",
        help="Where tamis serve is; repeat it, or use commas, for those of its standbys.",
    ),
]
Subscribe = Annotated[
    list[str] | None,
    typer.Option("--subscribe", metavar="ID=FILTER", help="What goes out; may be repeated."),
]
Name = Annotated[str, typer.Option(help="The bridge's name at both sides; its progress is stored under this name.")]
Namespace = Annotated[str, typer.Option(help="The namespace of events and subscriptions.")]
Token = Annotated[str | None, typer.Option(envvar="TAMIS_TOKEN", help="A token of the broker.")]
Insecure = Annotated[
    bool, typer.Option("--insecure", help="Allow the token to be sent unencrypted (http) to another machine.")
]
DeadLetters = Annotated[
    Path | None,
    typer.Option(
        "--dead-letters", metavar="FILE", help="The file for messages that can never be delivered, as JSON lines."
    ),
]
Progress = Annotated[
    float | None,
    typer.Option("--progress", metavar="SECONDS", min=0.1, help="Print the counts every this many seconds."),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Reach both sides, show some messages as events, and change nothing.")
]
OnlyNew = Annotated[
    bool, typer.Option("--only-new", help="A new bridge starts with the next message and skips older ones.")
]
LOCAL_BROKER = ["http://127.0.0.1:8080"]


@app.callback()
def bridge() -> None:
    """Connect a broker with other messaging systems."""


@app.command("nats", epilog=NATS_EPILOG)
def nats(
    nats: Annotated[list[str] | None, typer.Option("--nats", metavar="URL", help="A server of the cluster.")] = None,
    url: Url = LOCAL_BROKER,
    subjects: Annotated[
        list[str] | None, typer.Option("--in", metavar="SUBJECT", help="Subjects of a stream; * and > work.")
    ] = None,
    stream: Annotated[str, typer.Option(help="The stream of these subjects; found by them otherwise.")] = "",
    creds: Annotated[Path | None, typer.Option(metavar="FILE", help="Credentials of NATS.", exists=True)] = None,
    only_new: OnlyNew = False,
    subscribe: Subscribe = None,
    out: Annotated[str, typer.Option("--out", metavar="SUBJECT", help="Where it goes, such as 'alerts.{id}'.")] = "",
    name: Name = "bridge",
    namespace: Namespace = "default",
    token: Token = None,
    insecure: Insecure = False,
    dead_letters: DeadLetters = None,
    metrics: Metrics = None,
    progress: Progress = None,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Subjects of JetStream in as events, matches out to subjects, until Ctrl-C; each exactly once."""
    from tamis.runtime.bridges.systems.nats import NatsSystem
    from tamis.runtime.bridges.systems.nats_place import NatsPlace

    plan = _plan(url, name, subjects, subscribe, out, namespace, token, insecure, dead_letters)
    servers, credentials = nats or ["nats://127.0.0.1:4222"], "" if creds is None else str(creds)
    place = NatsPlace.parse(servers, stream=stream, credentials=credentials, from_beginning=not only_new)
    _run(plan, lambda counts: NatsSystem(place, plan, is_trial=dry_run), place.shown, metrics, progress, dry_run, json)


@app.command("kafka", epilog=KAFKA_EPILOG)
def kafka(
    kafka: Annotated[
        str, typer.Option("--kafka", metavar="HOST:PORT", help="Brokers of the cluster, with commas between.")
    ] = "127.0.0.1:9092",
    url: Url = LOCAL_BROKER,
    topics: Annotated[
        list[str] | None, typer.Option("--in", metavar="TOPIC", help="Topics whose messages become events.")
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="A setting of librdkafka; may be repeated.")
    ] = None,
    only_new: OnlyNew = False,
    subscribe: Subscribe = None,
    out: Annotated[str, typer.Option("--out", metavar="TOPIC", help="Where it goes, such as 'alerts-{id}'.")] = "",
    name: Name = "bridge",
    namespace: Namespace = "default",
    token: Token = None,
    insecure: Insecure = False,
    dead_letters: DeadLetters = None,
    metrics: Metrics = None,
    progress: Progress = None,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Topics of Kafka in as events exactly once, matches out to topics at least once, until Ctrl-C."""
    from tamis.runtime.bridges.systems.kafka import KafkaPlace, KafkaSystem

    plan = _plan(url, name, topics, subscribe, out, namespace, token, insecure, dead_letters)
    place = KafkaPlace.parse(kafka, option or (), from_beginning=not only_new)
    _run(plan, lambda counts: KafkaSystem(place, plan, is_trial=dry_run), kafka, metrics, progress, dry_run, json)


@app.command("mqtt", epilog=MQTT_EPILOG)
def mqtt(
    mqtt: Annotated[str, typer.Option("--mqtt", metavar="URL", help="The MQTT 5 broker.")] = "mqtt://127.0.0.1:1883",
    url: Url = LOCAL_BROKER,
    topics: Annotated[
        list[str] | None,
        typer.Option("--in", metavar="TOPIC", help="Topics whose messages become events; + and # work."),
    ] = None,
    subscribe: Subscribe = None,
    out: Annotated[
        str, typer.Option("--out", metavar="TOPIC", help="Where it goes, such as 'alerts/{id}' or 'alerts/{place}'.")
    ] = "",
    name: Name = "bridge",
    namespace: Namespace = "default",
    token: Token = None,
    insecure: Insecure = False,
    dead_letters: DeadLetters = None,
    metrics: Metrics = None,
    progress: Progress = None,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Topics in as events, matches out to topics, until Ctrl-C; at least once both ways (QoS 1)."""
    from tamis.runtime.bridges.systems.mqtt import MqttSystem

    plan = _plan(url, name, topics, subscribe, out, namespace, token, insecure, dead_letters)

    def make(counts: BridgeCounts) -> System:
        return MqttSystem(mqtt, plan, counts, keeps_session=not dry_run)

    _run(plan, make, mqtt, metrics, progress, dry_run, json, has_numbers=False)


def _plan(
    url: list[str],
    name: str,
    sources: list[str] | None,
    subscribe: list[str] | None,
    out: str,
    namespace: str,
    token: str | None,
    insecure: bool,
    dead_letters: Path | None,
) -> BridgePlan:
    from tamis.runtime.extra import demand_server

    demand_server("tamis bridge")
    from tamis.runtime.bridges.plan import BridgePlan

    filters = _filters(subscribe or [])
    return BridgePlan(
        tuple(url), name, tuple(sources or ()), filters, out, namespace, token, insecure, dead_letters
    ).check()


def _run(
    plan: BridgePlan,
    make: Callable[[BridgeCounts], System],
    place: str,
    metrics: int | None,
    progress: float | None,
    dry_run: bool,
    json: bool,
    *,
    has_numbers: bool = True,
) -> None:
    """Run a bridge and tell what it did; or only try it."""
    import asyncio

    from tamis.runtime.bridges.monitoring import metrics_of, report_progress
    from tamis.runtime.bridges.plan import BridgeCounts
    from tamis.runtime.bridges.running import run_bridge
    from tamis.runtime.metrics import serving_metrics

    counts, has_run = BridgeCounts(), False

    def greet(port: int | None) -> None:
        nonlocal has_run
        has_run = True
        _greet(place, plan.addresses, port, json)

    async def run() -> None:
        system = make(counts)
        if dry_run:
            await _try(plan, system, json)
            return
        labels = {"system": system.kind, "bridge": plan.name}
        with serving_metrics(lambda: metrics_of(counts), labels, metrics) as port:
            telling = asyncio.create_task(
                report_progress(counts, progress or 1e9, lambda current: _report(current, json))
            )
            try:
                await run_bridge(plan, system, counts, lambda: greet(port), has_numbers=has_numbers)
            finally:
                telling.cancel()

    try:
        asyncio.run(run())
    finally:
        if has_run:  # what never ran has nothing to report
            _report(counts, json)


async def _try(plan: BridgePlan, system: System, json: bool) -> None:
    """Show what a bridge would do."""
    from dataclasses import asdict

    from tamis.cli.screen import output, shown, write_json_lines
    from tamis.runtime.bridges.trial import SECONDS, try_bridge

    trial = await try_bridge(plan, system)
    if json:
        write_json_lines([asdict(trial)])
        return
    screen = output()
    for event in trial.events:
        screen.say(f"event    {shown(event, 160)}")
    for reason in trial.refusals:
        screen.say(f"refused  {reason}")
    if plan.sources and not trial.events and not trial.refusals:
        screen.say(f"no message came within {SECONDS:g} s")
    for id, filter in plan.subscriptions.items():
        screen.say(f"out      {id}: {filter}  ->  {plan.out}")
    screen.say("both sides were reached; nothing was published or acknowledged")


def _filters(texts: list[str]) -> dict[str, str]:
    from tamis.errors import ModelError

    filters = {}
    for text in texts:
        id, equals, filter = text.partition("=")
        if not equals or not id.strip() or not filter.strip():
            raise ModelError(f"--subscribe: expected ID=FILTER, such as 'hot=celsius > 40'; got {text!r}")
        if id.strip() in filters:
            raise ModelError(f"--subscribe: the id {id.strip()!r} is given twice")
        filters[id.strip()] = filter.strip()
    return filters


def _greet(place: str, broker: BrokerAddresses, port: int | None, json: bool) -> None:
    from tamis.cli.screen import output, write_json_lines

    if json:
        write_json_lines([{"ready": True} | ({} if port is None else {"metrics": port})])
        return
    output().say(f"{place} <-> {broker}  (Ctrl-C ends it)")
    if port is not None:
        output().say(f"metrics: http://127.0.0.1:{port}/metrics")


def _report(counts: BridgeCounts, json: bool) -> None:
    from dataclasses import asdict

    from tamis.cli.screen import errors, write_json_lines
    from tamis.runtime.bridges.monitoring import counts_as_text

    if json:
        write_json_lines([asdict(counts)])
    else:
        errors().say(counts_as_text(counts))
