"""The console: the first rows of what is written, for a look while a pipeline is built. It keeps nothing."""

from __future__ import annotations

from pyspark.sql import DataFrame

from tamis.spark.sinks.protocol import BatchKey

__all__ = ["Console"]

_SHOWN = 20


class Console:
    """Prints rows; the target is a title."""

    def resolve(self, target: str) -> str:
        """Return the title."""
        return target

    def replace(self, frame: DataFrame, target: str) -> None:
        """Print the first rows."""
        print(target)
        frame.show(_SHOWN, truncate=False)

    def write_batch(self, frame: DataFrame, target: str, batch: BatchKey) -> None:
        """Print the first rows of a batch."""
        self.replace(frame, f"{target} ({batch.query}, batch {batch.number})")
