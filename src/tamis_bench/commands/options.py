"""What the benchmarks' commands have in common: names and sizes to choose from, effort, rows shown as they come."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tamis_bench.rows import Row
    from tamis_bench.timing import Effort

__all__ = ["QUICK_SIZES", "chosen", "effort", "shown", "sizes_of"]

#: The size of a quick look.
QUICK_SIZES = "2k"


def effort(quick: bool, repeat: int) -> Effort:
    """Return how hard to try."""
    from tamis_bench.timing import Effort

    return Effort(repeat=2, seconds=0.03, batch=512, chunk=200, fresh=False) if quick else Effort(repeat=repeat)


def chosen(what: str, listed: str, choices: Sequence[str]) -> list[str]:
    """Return the names in a list as ``a,b``, all choices when the list is empty.

    Raises `ModelError` with the choices for a name that is not among them.
    """
    from tamis.errors import ModelError

    names = [name.strip() for name in listed.split(",")] if listed else list(choices)
    for name in names:
        if name not in choices:
            raise ModelError(f"there is no {what} {name!r}; choose from {', '.join(choices)}")
    return list(dict.fromkeys(names))


def sizes_of(listed: str) -> list[int]:
    """Return the sizes in a list such as ``500,10k``, sorted, each once.

    >>> sizes_of("500, 10k,1M")
    [500, 10000, 1000000]
    """
    from tamis.errors import ModelError

    sizes = []
    for text in listed.split(","):
        number, unit = text.strip(), 1
        if number[-1:] in ("k", "M"):
            number, unit = number[:-1], 1_000 if number[-1] == "k" else 1_000_000
        if not (number.isdecimal() and 0 < int(number) * unit <= 100_000_000):
            raise ModelError(f"a size is a number as 500, 10k or 1M, at most 100M; not {text.strip()!r}")
        sizes.append(int(number) * unit)
    return sorted(set(sizes))


def shown(rows: Iterable[Row], json: bool) -> Iterator[Row]:
    """Yield the rows; show progress or, with ``json``, print each row at once, so that a stopped run leaves rows."""
    from tamis.cli.screen import errors, write_json_lines
    from tamis_bench.report import size_name

    last, console = "", errors()
    for row in rows:
        if json:
            write_json_lines([row.as_json()])
        label = f"{row.work}, {size_name(row.n)} subscriptions: {row.system}"
        if label != last and console.is_terminal:
            console.say(label, "dim")
        last = label
        yield row
