"""The program of a worker process: ``python -m tamis.web.work.worker``.

It answers questions on its standard input until that ends. The kernel ends a question that takes more CPU time than it
may (``RLIMIT_CPU``), so that no loop in native code can hold a worker. Memory is limited likewise. A worker yields to
the broker (`nice`), and has neither the broker's sockets nor its disk.
"""

from __future__ import annotations

import os
import resource
import sys
import traceback
from typing import BinaryIO

from tamis.errors import LimitError, TamisError
from tamis.web.work.jobs import JOBS
from tamis.web.work.pipes import WorkerAnswer, WorkerQuestion, frame, read_from, value_of

__all__ = ["MAX_MEMORY", "main"]

#: Bytes of data of a worker; its imports take about 300 MiB of them.
MAX_MEMORY = 2 * 1024**3

#: How much less urgent than the broker.
NICE = 10


def main() -> None:
    """Answer questions until standard input ends."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not be taken for an answer
    os.nice(NICE)
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = MAX_MEMORY if hard == resource.RLIM_INFINITY else min(MAX_MEMORY, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (most, hard))
    _answer_all(sys.stdin.buffer, answers)


def _answer_all(questions: BinaryIO, answers: BinaryIO) -> None:
    while (question := read_from(questions)) is not None:
        used = resource.getrusage(resource.RUSAGE_SELF)
        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        seconds = int(used.ru_utime + used.ru_stime) + 1 + question.cpu_seconds
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, hard))
        answers.write(frame(_answered(question)))
        answers.flush()


def _answered(question: WorkerQuestion) -> WorkerAnswer:
    try:
        return WorkerAnswer(value=value_of(JOBS[question.job](question.arguments, question.blobs)))
    except TamisError as error:
        corrected = getattr(error, "corrected", None)
        return WorkerAnswer(error=type(error).__name__, arguments=value_of(error.args), corrected=corrected)
    except MemoryError:
        return WorkerAnswer(
            error=LimitError.__name__, arguments=value_of(("bytes of memory", MAX_MEMORY + 1, MAX_MEMORY))
        )
    except Exception as error:  # a defect: the broker answers 500, and the traceback is in its log
        traceback.print_exc()
        return WorkerAnswer(defect=f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
