"""``tamis kernels``: compile the kernels now, and the same in the background of a command that needs them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated

import typer

from tamis.cli.options import Json, examples

__all__ = ["EPILOG", "Compilation", "Use", "compiling", "kernels"]

EPILOG = examples("tamis kernels", "tamis kernels --only broker")


class Use(StrEnum):
    """What kernels are compiled for."""

    JOB = "job"
    BROKER = "broker"


def kernels(
    only: Annotated[
        Use | None,
        typer.Option(help="Compile the kernels of a job (indexing, matching tables, reducing) or of a broker only."),
    ] = None,
    json: Json = False,
) -> None:
    """Compile the kernels of jobs and brokers into the cache, so that the first job or request does not have to.

    A container image or an installation that several users share does this once; a second call finds nothing to do.
    """
    import time

    from tamis.cli.screen import errors, output, write_json

    start = time.process_time()
    for use in Use if only is None else (only,):
        are_compiled, compile_kernels = _of(use)
        if not are_compiled():
            if not json:
                errors().say(f"compiling kernels of a {use}: about a minute, once ...", "dim")
            compile_kernels()
    seconds = round(time.process_time() - start, 1)
    if json:
        write_json({"cpu_seconds": seconds})
    else:
        output().say(f"kernels are compiled ({seconds} s of CPU time)")


def _of(use: Use) -> tuple[Callable[[], bool], Callable[[], None]]:
    """Return what tells whether the kernels for a use are compiled, and what compiles them."""
    if use is Use.BROKER:
        from tamis.engine import warm_up

        return warm_up.are_kernels_compiled, warm_up.load_kernels
    from tamis.demo import warm_up as job

    return job.are_kernels_compiled, job.compile_kernels


class Compilation:
    """The kernels being compiled by another process."""

    def __init__(self, process: subprocess.Popen[bytes] | None) -> None:
        self._process = process

    @property
    def is_running(self) -> bool:
        """Whether there is something to wait for."""
        return self._process is not None and self._process.poll() is None

    def wait(self) -> None:
        """Wait until the kernels are compiled; a failure is left to the job, which then compiles them itself."""
        if self._process is not None:
            self._process.wait()


@contextmanager
def compiling(master: str | None = None) -> Iterator[Compilation]:
    """Compile the kernels in another process meanwhile, if the cache lacks them and Spark's workers run here."""
    from tamis.demo.warm_up import are_kernels_compiled

    process = None
    if (master or "local").startswith("local") and not are_kernels_compiled():
        command = [sys.executable, "-m", "tamis.cli.kernels"]
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
    try:
        yield Compilation(process)
    finally:
        if process is not None:
            process.terminate()
            process.wait()


if __name__ == "__main__":
    from tamis.demo.warm_up import compile_kernels

    compile_kernels()
