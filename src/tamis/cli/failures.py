"""Error messages and exit codes of commands: a message names the culprit and the next step.

0 is yes or done, 1 is no, 2 is bad input; 130 and 141 are Ctrl-C and a closed pipe, as in shells.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import typer

from tamis.cli.screen import errors
from tamis.errors import InvariantError, MissingExtraError, SchemaError, TamisError

__all__ = ["BAD_INPUT", "NO", "failing_well"]

NO, BAD_INPUT, INTERRUPTED, CLOSED_PIPE = 1, 2, 130, 141

#: Phrases of error messages, and the hint for each.
_HINTS = {
    "a time without a zone": "say where such times are meant, for example --zone Europe/Berlin or --zone UTC",
    "there is no time zone": "names are those of the IANA database, for example Europe/Berlin",
    "and a timestamp is compared with it": "a column holds moments when its values read 2026-01-31T12:00:00Z",
    "not UTF-8 text": "convert the file first, for example with iconv -f latin1 -t utf-8",
    "exists already": "two rows have one id; ids are unique",
}


@contextlib.contextmanager
def failing_well() -> Iterator[None]:
    """Turn errors that an input can cause into a message on standard error and an exit code."""
    try:
        yield
        sys.stdout.flush()
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        _leave_quietly()
        raise typer.Exit(CLOSED_PIPE) from None
    except TamisError as error:
        _tell(str(error), _hint(error))
        raise typer.Exit(BAD_INPUT) from None
    except OSError as error:
        if error.filename is None:  # it is standard output that cannot be written: a full disk
            _leave_quietly()
        _tell(_about_file(error), "")
        raise typer.Exit(BAD_INPUT) from None


def _tell(problem: str, hint: str) -> None:
    console = errors()
    console.say(f"error: {problem}", "red")
    if hint:
        console.say(f"hint: {hint}")


def _hint(error: TamisError) -> str:
    text = str(error)
    if isinstance(error, InvariantError):
        return "this is a bug in tamis, not in your input; please report it with these lines"
    if isinstance(error, MissingExtraError):
        return ""
    if isinstance(error, SchemaError) and "known as" in text:
        return "one attribute has one type; a schema says which: --schema FILE"
    return next((hint for words, hint in _HINTS.items() if words in text), "")


def _about_file(error: OSError) -> str:
    if error.filename is None:
        return f"the output cannot be written: {error.strerror or error}"
    name = os.fsdecode(error.filename) if isinstance(error.filename, bytes) else str(error.filename)
    if isinstance(error, FileNotFoundError):
        folder = Path(name).parent
        return f"{name}: there is no such file" if folder.is_dir() else f"{name}: there is no folder {folder}"
    if isinstance(error, IsADirectoryError):
        return f"{name}: a directory, not a file"
    return f"{name}: {(error.strerror or 'cannot be used').lower()}"


def _leave_quietly() -> None:
    """Redirect standard output to the null device, so that flushing its buffer at exit cannot fail."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
