"""Commands that other packages add: found, listed, and harmless when they are broken or absent."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint
from types import ModuleType

import pytest
import typer
from typer.testing import CliRunner

from tamis.cli import extensions
from tamis.cli.main import app


def greet(name: str) -> None:
    """Greet a person by name."""
    print(f"hello {name}")


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> dict[str, EntryPoint]:
    """Return what is installed, as a mapping that a test may fill."""
    points: dict[str, EntryPoint] = {}
    monkeypatch.setattr(extensions, "_installed", lambda: points)
    return points


def add(points: dict[str, EntryPoint], name: str, target: object, monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType(f"tamis_extension_{name}")
    module.target = target  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    points[name] = EntryPoint(name, f"{module.__name__}:target", extensions.GROUP)


def test_lab_and_bench_join_through_entry_points() -> None:
    assert {"bench", "lab"} <= set(extensions.extension_names())
    shown = CliRunner().invoke(app, ["--help"]).output
    assert "bench" in shown
    assert "lab" in shown


def test_a_function_becomes_a_command(installed: dict[str, EntryPoint], monkeypatch: pytest.MonkeyPatch) -> None:
    add(installed, "greet", greet, monkeypatch)
    assert "Greet a person by name." in CliRunner().invoke(app, ["--help"]).output
    assert CliRunner().invoke(app, ["greet", "ada"]).output == "hello ada\n"


def test_an_application_becomes_a_group(installed: dict[str, EntryPoint], monkeypatch: pytest.MonkeyPatch) -> None:
    group = typer.Typer(help="Say things.")
    group.command("hello")(greet)
    group.command("other")(greet)
    add(installed, "say", group, monkeypatch)
    assert CliRunner().invoke(app, ["say", "hello", "ada"]).output == "hello ada\n"


def test_a_command_of_tamis_wins(installed: dict[str, EntryPoint], monkeypatch: pytest.MonkeyPatch) -> None:
    add(installed, "verify", greet, monkeypatch)
    assert "Greet" not in CliRunner().invoke(app, ["--help"]).output


def test_a_broken_extension_names_itself_and_harms_no_other(installed: dict[str, EntryPoint]) -> None:
    installed["broken"] = EntryPoint("broken", "no_such_module:app", extensions.GROUP)
    assert CliRunner().invoke(app, ["--help"]).exit_code == 0
    done = CliRunner().invoke(app, ["broken", "anything", "--at", "all"])
    assert done.exit_code == 2
    assert "tamis broken comes from no_such_module:app, which cannot be imported" in " ".join(done.output.split())


@pytest.mark.parametrize("name", ["lab", "bench"])
def test_a_missing_package_says_how_to_get_it(installed: dict[str, EntryPoint], name: str) -> None:
    done = CliRunner().invoke(app, [name, "run"])
    assert done.exit_code == 2
    assert f"pip install 'tamis-{name}'" in " ".join(done.output.split())
    assert f"tamis-{name}" not in CliRunner().invoke(app, ["--help"]).output
