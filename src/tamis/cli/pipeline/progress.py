"""Progress of a pipeline on standard error: bars on a terminal, a line for each stage elsewhere."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TaskProgressColumn, TextColumn, TimeElapsedColumn

from tamis.cli.screen import errors

__all__ = ["StageProgress"]

_EVERY = 0.25  # seconds between two looks at Spark


class StageProgress:
    """Shows which stage runs and how many of Spark's tasks are done; ``quiet`` shows nothing."""

    def __init__(self, *, quiet: bool) -> None:
        self._console = errors()
        self._quiet = quiet

    def announce(self, text: str) -> None:
        """Announce a long step, unless a terminal shows a bar for it."""
        if not self._quiet and not self._console.is_terminal:
            self._console.say(text, "dim")

    @contextmanager
    def watch(self, name: str) -> Iterator[None]:
        """Show a stage while it runs."""
        if self._quiet:
            yield
        elif self._console.is_terminal:
            with self._bar(name):
                yield
        else:
            start = time.perf_counter()
            yield
            self._console.say(f"{name}: {time.perf_counter() - start:.1f} s", "dim")

    @contextmanager
    def _bar(self, name: str) -> Iterator[None]:
        columns = (SpinnerColumn(), TextColumn("{task.description:<20}"), BarColumn(), TaskProgressColumn())
        with Progress(*columns, TimeElapsedColumn(), console=self._console, transient=True) as progress:
            task, ended = progress.add_task(name, total=None), threading.Event()
            looking = threading.Thread(target=_follow, args=(progress, task, ended), daemon=True)
            looking.start()
            try:
                yield
            finally:
                ended.set()
                looking.join()


def _follow(progress: Progress, task: TaskID, ended: threading.Event) -> None:
    """Move the bar with the tasks of whatever stage of Spark runs now."""
    from tamis.spark.running.progress import task_counts

    while not ended.wait(_EVERY):
        done, total = task_counts()
        progress.update(task, completed=done, total=total or None)
