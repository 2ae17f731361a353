"""``tamis kernels``: compiles the kernels now; other commands do the same in the background when they need them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated, Protocol

import typer

from tamis.cli.options import Json, examples

__all__ = ["EPILOG", "Compilation", "Use", "compile_kernels", "compiling", "kernels"]

EPILOG = examples("tamis kernels", "tamis kernels --only broker")


class Use(StrEnum):
    """The use that kernels are compiled for."""

    JOB = "job"
    BROKER = "broker"


class _WarmUp(Protocol):
    """A module that compiles the kernels of a use: `tamis.demo.warm_up` or `tamis.engine.warm_up`."""

    #: Each part compiles different kernels, so that parallel processes share the work.
    PARTS: dict[str, Callable[[], None]]

    def are_kernels_compiled(self) -> bool: ...

    def leave_mark(self) -> None: ...


def kernels(
    only: Annotated[
        Use | None,
        typer.Option(help="Compile the kernels of a job (indexing, matching tables, reducing) or of a broker only."),
    ] = None,
    json: Json = False,
) -> None:
    """Compile the kernels of jobs and brokers into the cache, so that the first job or request need not wait.

    A container image or an installation that several users share does this once; a second call finds nothing to do.
    """
    import time

    from tamis.cli.screen import errors, output, write_json

    start = time.perf_counter()
    for use in Use if only is None else (only,):
        if not _warm_up(use).are_kernels_compiled():
            if not json:
                errors().say(f"compiling kernels of a {use}: about a minute, once ...", "dim")
            compile_kernels(use)
    seconds = round(time.perf_counter() - start, 1)
    if json:
        write_json({"seconds": seconds})
    else:
        output().say(f"kernels are compiled ({seconds} s)")


def compile_kernels(use: Use) -> None:
    """Compile the kernels of a use, in several processes if there is a cache that they share."""
    from tamis.kernels.cache import mark_path

    if mark_path() is not None and Compilation(use).wait():
        return
    warm_up = _warm_up(use)  # without a cache this process needs them; after a failure this shows the error
    for compile_part in warm_up.PARTS.values():
        compile_part()
    warm_up.leave_mark()


def _warm_up(use: Use) -> _WarmUp:
    """Return the module that compiles the kernels of a use."""
    if use is Use.BROKER:
        from tamis.engine import warm_up as of_broker

        return of_broker
    from tamis.demo import warm_up as of_job

    return of_job


class Compilation:
    """The compilation of a use's kernels by other processes, one for each part."""

    def __init__(self, use: Use | None) -> None:
        self._use = use
        parts = () if use is None else _warm_up(use).PARTS
        self._processes = [
            subprocess.Popen(
                [sys.executable, "-m", "tamis.cli.kernels", str(use), part],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            for part in parts
        ]

    @property
    def is_running(self) -> bool:
        """Whether a process is still running."""
        return any(process.poll() is None for process in self._processes)

    def wait(self) -> bool:
        """Wait until all parts are compiled, and return whether none failed."""
        try:
            codes = [process.wait() for process in self._processes]
        except BaseException:  # an interrupted command leaves no process behind
            self.stop()
            raise
        are_compiled = not any(codes)
        if are_compiled and self._use is not None:
            _warm_up(self._use).leave_mark()
        return are_compiled

    def stop(self) -> None:
        """End the processes."""
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.wait()


@contextmanager
def compiling(master: str | None = None) -> Iterator[Compilation]:
    """Compile the kernels of a job meanwhile, if the cache lacks them and Spark's workers run on this machine."""
    from tamis.demo.warm_up import are_kernels_compiled

    is_local = (master or "local").startswith("local")
    compilation = Compilation(Use.JOB if is_local and not are_kernels_compiled() else None)
    try:
        yield compilation
    finally:
        compilation.stop()


if __name__ == "__main__":
    _warm_up(Use(sys.argv[1])).PARTS[sys.argv[2]]()
