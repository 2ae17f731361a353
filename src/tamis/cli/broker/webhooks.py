"""``tamis webhooks``: has the messages of subscriptions sent to HTTPS endpoints."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tamis.cli.broker.at_broker import HERE, Broker, Namespace, at_broker
from tamis.cli.options import Json, examples

if TYPE_CHECKING:
    from tamis.runtime.client.webhook_calls import WebhookCalls

__all__ = ["app"]

app = typer.Typer(
    help="Send the messages of a durable subscription to an HTTPS endpoint: signed, in order, with retries.",
    no_args_is_help=True,
    epilog=examples(
        "tamis webhooks set strong https://hooks.example.com/quakes --batch 100",
        "tamis webhooks show strong",
        "tamis webhooks rotate strong --overlap 3600",
        "tamis webhooks resume strong",
    ),
)

Id = Annotated[str, typer.Argument(metavar="ID", help="The id of a durable subscription made over HTTP.")]
SecretFile = Annotated[
    Path | None,
    typer.Option(
        "--secret-file",
        metavar="FILE",
        help="A file with the secret: whsec_ and the base64 of 24 to 64 bytes. Without it the broker makes one and "
        "prints it once.",
    ),
]


class Format(StrEnum):
    """How requests are written."""

    STRUCTURED = "structured"
    BINARY = "binary"


@app.command("set", epilog=examples("tamis webhooks set strong https://hooks.example.com/quakes --batch 100"))
@at_broker
def set_webhook(
    id: Id,
    endpoint: Annotated[str, typer.Argument(metavar="URL", help="Where to send messages, as https://host/path.")],
    secret_file: SecretFile = None,
    format: Annotated[
        Format, typer.Option(help="CloudEvents as JSON, or one CloudEvent in headers with its data as the body.")
    ] = Format.STRUCTURED,
    batch: Annotated[int, typer.Option(min=1, max=1000, help="Messages of one request, at most.")] = 1,
    parallel: Annotated[
        int, typer.Option(min=1, max=16, help="Requests under way; with 1 messages arrive in order.")
    ] = 1,
    timeout: Annotated[float, typer.Option(min=1, max=60, help="Seconds for one request.")] = 10.0,
    max_failures: Annotated[
        int, typer.Option(min=1, max=1000, help="Failures in a row after which it is suspended.")
    ] = 20,
    broker: Broker = HERE,
    namespace: Namespace = "default",
    json: Json = False,
) -> None:
    """Send the messages of a subscription to a URL, beginning with those that wait."""
    settings: dict[str, Any] = {
        "format": format.value,
        "batch": batch,
        "parallel": parallel,
        "timeout": timeout,
        "max_failures": max_failures,
        **_secret(secret_file),
    }
    _show(_calls(broker, namespace).set(id, endpoint, **settings), json)


@app.command("show", epilog=examples("tamis webhooks show strong"))
@at_broker
def show_webhook(
    id: Id,
    broker: Broker = HERE,
    namespace: Namespace = "default",
    json: Json = False,
) -> None:
    """Show where messages are sent, how many wait, and what failed."""
    _show(_calls(broker, namespace).show(id), json)


@app.command("list", epilog=examples("tamis webhooks list --json"))
@at_broker
def list_webhooks(
    broker: Broker = HERE,
    json: Json = False,
) -> None:
    """List the webhooks that your token may see; `show` says what is wrong with one."""
    from tamis.cli.screen import make_table, output, plain, write_json_lines

    hooks = list(_calls(broker, "default").all())
    if json:
        write_json_lines(hooks)
        return
    columns = ("subscription", "namespace", "host", "state", "waiting", "failures")
    table = make_table(*columns)
    for hook in hooks:
        table.add_row(*(plain(str(hook[name])) for name in columns))
    output().print(table)


@app.command("rotate", epilog=examples("tamis webhooks rotate strong --overlap 3600"))
@at_broker
def rotate_secret(
    id: Id,
    secret_file: SecretFile = None,
    overlap: Annotated[
        float, typer.Option(min=0, help="Seconds for which requests are signed with the former secret, too.")
    ] = 86_400.0,
    broker: Broker = HERE,
    namespace: Namespace = "default",
    json: Json = False,
) -> None:
    """Sign with a new secret; requests have two signatures until the overlap is over."""
    calls = _calls(broker, namespace)
    _show(calls.rotate(id, overlap=overlap, **_secret(secret_file)), json)


@app.command("suspend", epilog=examples("tamis webhooks suspend strong"))
@at_broker
def suspend_webhook(
    id: Id,
    broker: Broker = HERE,
    namespace: Namespace = "default",
    json: Json = False,
) -> None:
    """Send nothing until it is resumed; messages wait in the subscription's queue."""
    _show(_calls(broker, namespace).suspend(id), json)


@app.command("resume", epilog=examples("tamis webhooks resume strong"))
@at_broker
def resume_webhook(
    id: Id,
    broker: Broker = HERE,
    namespace: Namespace = "default",
    json: Json = False,
) -> None:
    """Send what waits, and go on: after the endpoint was repaired."""
    _show(_calls(broker, namespace).resume(id), json)


@app.command("remove", epilog=examples("tamis webhooks remove strong"))
@at_broker
def remove_webhook(
    id: Id,
    broker: Broker = HERE,
    namespace: Namespace = "default",
    json: Json = False,
) -> None:
    """Send nothing more; the subscription and its queue stay."""
    from tamis.cli.screen import output, write_json

    _calls(broker, namespace).remove(id)
    if json:
        write_json({"removed": id})
    else:
        output().say(f"removed the webhook of subscription {id}")


def _calls(broker: Broker, namespace: str) -> WebhookCalls:
    from tamis.runtime.client.webhook_calls import WebhookCalls

    return WebhookCalls(broker.calls(namespace))


def _secret(path: Path | None) -> dict[str, str]:
    return {} if path is None else {"secret": path.read_text(encoding="utf-8").strip()}


def _show(hook: dict[str, Any], json: bool) -> None:
    from tamis.cli.screen import output, plain, write_json

    if json:
        write_json(hook)
        return
    for name, value in hook.items():
        if name != "secret":
            output().say(f"{name + ':':<13} {plain(str(value))}")
    if "secret" in hook:
        output().say(f"secret: {hook['secret']}  (shown once; the receiver verifies signatures with it)")
