"""Progress of the laboratory on standard error: two bars on a terminal, a line per experiment elsewhere."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from tamis.cli.screen import errors

if TYPE_CHECKING:
    from tamis_lab.experiment import Experiment
    from tamis_lab.running import DrawProgress

__all__ = ["LabProgress"]


class LabProgress:
    """Shows which experiment runs and how many of its draws are done; ``quiet`` shows nothing."""

    def __init__(self, experiments: Sequence[Experiment], *, quiet: bool) -> None:
        self._console = errors()
        self._quiet = quiet
        self._started: dict[str, float] = {}
        columns = (SpinnerColumn(), TextColumn("{task.description:<20}"), BarColumn(), MofNCompleteColumn())
        shown = not quiet and self._console.is_terminal
        self._bars = Progress(*columns, TimeElapsedColumn(), console=self._console, transient=True, disable=not shown)
        self._experiments_task = self._bars.add_task("experiments", total=len(experiments))
        self._draws_task = self._bars.add_task("", total=None)

    def __enter__(self) -> LabProgress:
        self._bars.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._bars.stop()

    def show(self, step: DrawProgress) -> None:
        """Show how many draws of an experiment are done."""
        name = step.experiment.name
        started = self._started.setdefault(name, time.perf_counter())
        self._bars.update(self._draws_task, description=name, completed=step.done, total=step.total)
        if step.done == step.total:
            self._bars.update(self._experiments_task, completed=len(self._started))
            if not self._quiet:
                spent = time.perf_counter() - started
                self._console.say(f"{name}: {step.total} draws, {spent:.1f} s", "dim")
