"""The loop over the batches of a file: a progress bar, a count, and the rows that were skipped."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from tamis.cli.screen import errors
from tamis.files import BadRow, Batch, EventFile

__all__ = ["Skipped", "Stopwatch", "watched"]

#: Skipped rows that are listed; the rest are counted.
_NAMED = 5


@dataclass
class Skipped:
    """The rows that a run left out: how many, and the first few with their reasons."""

    count: int = 0
    first: list[tuple[str, BadRow]] = field(default_factory=list)

    def add(self, name: str, rows: Iterable[BadRow]) -> None:
        """Note rows of a file."""
        for row in rows:
            self.count += 1
            if len(self.first) < _NAMED:
                self.first.append((name, row))

    def tell(self) -> None:
        """List them on standard error."""
        if not self.count:
            return
        console = errors()
        console.say(f"skipped {self.count:,} {'row' if self.count == 1 else 'rows'} that cannot be read:", "yellow")
        for name, row in self.first:
            console.say(f"  {name}, {row.place}: {row.problem.splitlines()[0]}")
        if self.count > len(self.first):
            console.say(f"  ... and {self.count - len(self.first):,} more")

    def as_json(self) -> list[dict[str, object]]:
        """Return the first few as plain JSON values."""
        return [{"file": name, "row": row.row, "place": row.place, "problem": row.problem} for name, row in self.first]


#: Seconds from which on the rate of a run is that of reading and matching.
_LONG = 5.0


class Stopwatch:
    """Counts rows against the clock."""

    def __init__(self) -> None:
        self._start = time.perf_counter()
        self.rows = 0

    @property
    def seconds(self) -> float:
        """The time since the start."""
        return time.perf_counter() - self._start

    @property
    def rate(self) -> float:
        """Rows per second."""
        return self.rows / max(self.seconds, 1e-9)

    def tell(self) -> str:
        """Return the time, and the rate if the run was long enough: in a short one, starting takes most of the time."""
        seconds = self.seconds
        return f"{seconds:.1f} s" + (f", {self.rows / seconds:,.0f} events per second" if seconds >= _LONG else "")


def watched(file: EventFile, batches: Iterable[Batch], watch: Stopwatch, skipped: Skipped) -> Iterator[Batch]:
    """Yield batches, with a progress bar on standard error when that is a terminal."""
    console = errors()
    columns = (TextColumn("reading"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=file.n_rows)
        for batch in batches:
            skipped.add(file.name, batch.bad)
            yield batch
            watch.rows += len(batch) + len(batch.bad)
            progress.update(task, completed=watch.rows)
