"""The help of every command fits a narrow terminal and ends with examples, and output can be had as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
import pytest
import typer
from typer.testing import CliRunner

from tamis.cli.filters.reading import Stopwatch
from tamis.cli.main import app

#: Commands without ``--json``: a view that runs until Ctrl-C, and those whose output is JSON anyway.
_NO_JSON = {
    ("demo", "console"),
    ("peer",),
    *(("import", kind) for kind in ("sql", "jms", "cloudevents", "amqp", "eventbridge")),
}


def _commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    if not hasattr(command, "list_commands"):
        yield path, command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        yield from _commands(command.get_command(context, name), (*path, name))


COMMANDS = dict(_commands(typer.main.get_command(app)))


def test_every_command_is_visited() -> None:
    assert {("match",), ("serve", "token", "add"), ("webhooks", "show"), ("lab", "run"), ("bench", "match")} <= {
        *COMMANDS
    }


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_help_has_examples_of_the_command_and_fits_80_columns(path: tuple[str, ...]) -> None:
    lines = CliRunner().invoke(app, [*path, "--help"], env={"COLUMNS": "80"}).output.splitlines()
    assert [line for line in lines if len(line) > 80] == []
    examples = lines[next(i for i, line in enumerate(lines) if line.strip() == "Examples") :]
    assert any(line.strip().startswith(f"tamis {path[0]}") for line in examples)


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_output_can_be_json(path: tuple[str, ...]) -> None:
    options = {option for parameter in COMMANDS[path].params for option in parameter.opts}
    assert ("--json" in options) == (path not in _NO_JSON)


@pytest.mark.parametrize(("seconds", "expected"), [(2.0, "2.0 s"), (10.0, "10.0 s, 300 events per second")])
def test_a_rate_is_told_of_long_runs_only(seconds: float, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    watch = Stopwatch()
    watch.rows = 3_000
    monkeypatch.setattr(Stopwatch, "seconds", seconds)
    assert watch.tell() == expected
