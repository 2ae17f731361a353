"""Commands that other packages add to ``tamis``, found through the entry-point group ``tamis.commands``.

A package names a Typer application (or a plain function) under the name of its command::

    [project.entry-points."tamis.commands"]
    lab = "tamis_lab.commands.app:app"

An extension is imported when its command is called or listed. One that cannot be imported does not affect the others:
its command reports the error.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

import typer

from tamis.errors import ExtensionError, MissingExtraError

__all__ = ["GROUP", "extension_names", "find_extension"]

GROUP: Final = "tamis.commands"

#: Commands of separate packages, and the packages to install.
_KNOWN_PACKAGES: Final = {"lab": "tamis-lab", "bench": "tamis-bench"}


@cache
def _installed() -> dict[str, EntryPoint]:
    """Return the entry points of the group by name; of two packages with the same name the first counts."""
    points: dict[str, EntryPoint] = {}
    for point in entry_points(group=GROUP):
        points.setdefault(point.name, point)
    return points


def extension_names() -> list[str]:
    """Return the names of installed extensions, sorted."""
    return sorted(_installed())


def find_extension(name: str) -> Any | None:
    """Return the command of an extension, or None if no installed or known package has one of this name."""
    point = _installed().get(name)
    if point is not None:
        return _loaded(point)
    if name in _KNOWN_PACKAGES:
        return _refusing(name, MissingExtraError(f"tamis {name}", "", _KNOWN_PACKAGES[name]))
    return None


def _loaded(point: EntryPoint) -> Any:
    """Import an extension and return it as a command."""
    try:
        target = point.load()
    except Exception as error:  # whatever a foreign package raises while it is imported
        package = point.dist.name if point.dist else point.value
        return _refusing(point.name, ExtensionError(point.name, package, f"{type(error).__name__}: {error}"))
    if not isinstance(target, typer.Typer):
        function, target = target, typer.Typer(add_completion=False)
        target.command(point.name)(function)
    command = typer.main.get_command(target)
    command.name = point.name
    return command


def _refusing(name: str, reason: Exception) -> Any:
    """Return a command that does nothing but raise ``reason``."""
    application = typer.Typer(add_completion=False, help=f"Not available: {reason}")

    @application.command(
        name,
        help=f"Not available: {reason}",
        context_settings={"ignore_unknown_options": True, "help_option_names": []},
    )
    def refuse(arguments: list[str] | None = typer.Argument(None, hidden=True)) -> None:  # noqa: B008
        raise reason

    return typer.main.get_command(application)
