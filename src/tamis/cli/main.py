"""The program ``tamis``.

Commands import modules when they run, so that ``tamis --version`` is quick and loads no part of the library.
"""

from __future__ import annotations

import contextlib
import io
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from tamis.cli import kernels
from tamis.cli.broker import apply, bridge, consume, network, peer, publish, serve, tune, webhooks
from tamis.cli.demo import app as demo
from tamis.cli.extensions import extension_names, find_extension
from tamis.cli.failures import failing_well
from tamis.cli.filters import backtest, covers, explain, import_rules, match, migrate, reduce, try_filter, verify
from tamis.cli.options import examples
from tamis.cli.pipeline import app as pipeline

__all__ = ["app", "main"]

_EPILOG = examples(
    "tamis demo",
    "tamis try \"mag >= 4 AND place LIKE '%Alaska'\" quakes.parquet",
    "tamis match subscriptions.jsonl quakes.parquet --out matches.csv",
    'tamis explain "mag >= 4" \'{"mag": 3.2}\'',
    'tamis covers "mag >= 4" "mag >= 5 AND depth < 70"',
    "tamis reduce subscriptions.jsonl",
    "tamis network --brokers 31",
    "tamis pipeline demo",
    "tamis lab run z-plateau",
)


class Commands(TyperGroup):
    """The group of all commands, including those of extensions; it reports the errors of all of them."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands, in the order of the help."""
        names = super().list_commands(ctx)
        return [*names, *(name for name in extension_names() if name not in names)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command by name: one of tamis itself before one of an extension."""
        return super().get_command(ctx, cmd_name) or find_extension(cmd_name)

    def invoke(self, ctx: Any) -> Any:
        """Run a command; errors that an input can cause become messages."""
        with failing_well():
            return super().invoke(ctx)


app = typer.Typer(
    cls=Commands,
    help="Match events against subscriptions, and find the subscribers of each event.",
    epilog=_EPILOG,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from tamis import __version__

        print(f"tamis {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Match events against subscriptions, and find the subscribers of each event.

    Exit codes: 0 yes or done, 1 no, 2 bad input.
    """


app.add_typer(demo.app, name="demo")
app.command("try", epilog=try_filter.EPILOG)(try_filter.try_filter)
app.command("match", epilog=match.EPILOG)(match.match)
app.command("explain", epilog=explain.EPILOG)(explain.explain)
app.command("covers", epilog=covers.EPILOG)(covers.covers)
app.command("reduce", epilog=reduce.EPILOG)(reduce.reduce)
app.command("backtest", epilog=backtest.EPILOG)(backtest.backtest)
app.command("network", epilog=network.EPILOG)(network.network)
app.command("tune", epilog=tune.EPILOG)(tune.tune)
app.add_typer(import_rules.app, name="import")
app.command("peer", epilog=peer.EPILOG)(peer.peer)
app.command("kernels", epilog=kernels.EPILOG)(kernels.kernels)
app.command("verify", epilog=verify.EPILOG)(verify.verify)
app.command("migrate", epilog=migrate.EPILOG)(migrate.migrate)
app.command("publish", epilog=publish.PUBLISH_EPILOG)(publish.publish)
app.command("subscribe", epilog=publish.SUBSCRIBE_EPILOG)(publish.subscribe)
app.command("consume", epilog=consume.CONSUME_EPILOG)(consume.consume)
app.command("dead-letters", epilog=consume.LETTERS_EPILOG)(consume.dead_letters)
app.command("apply", epilog=apply.EPILOG)(apply.apply)
app.add_typer(pipeline.app, name="pipeline")
app.add_typer(serve.app, name="serve")
app.add_typer(bridge.app, name="bridge")
app.add_typer(webhooks.app, name="webhooks")


def main() -> None:
    """Run the program with the arguments of this process."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            with contextlib.suppress(ValueError):
                stream.reconfigure(errors="backslashreplace")
    app(prog_name="tamis")
