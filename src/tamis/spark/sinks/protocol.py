"""What a sink is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

from pyspark.sql import DataFrame

from tamis.errors import ModelError

__all__ = ["BatchKey", "Sink"]

_QUERY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")


@dataclass(frozen=True)
class BatchKey:
    """The micro-batch that rows belong to."""

    query: str
    number: int

    def __post_init__(self) -> None:
        if not _QUERY.fullmatch(self.query):
            raise ModelError(f"the query {self.query!r} is not a name of letters, digits, '_', '.' and '-'")
        if self.number < 0:
            raise ModelError(f"{self.number} is not the number of a batch")


class Sink(Protocol):
    """A kind of place that rows go to; ``target`` says which one: a path, a URI, the name of a table."""

    def resolve(self, target: str) -> str:
        """Return the target as every process sees it, a relative path made absolute.

        Raises `ModelError` or `MissingExtraError` when it cannot be written, before anything runs.
        """

    def replace(self, frame: DataFrame, target: str) -> None:
        """Put the rows in the place of what the target holds."""

    def write_batch(self, frame: DataFrame, target: str, batch: BatchKey) -> None:
        """Add the rows of a batch, once, however often it is written."""
