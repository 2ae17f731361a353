"""Files of events and of subscriptions: JSONL, JSON, CSV and Parquet, read in batches and written whole.

Events are read as `Batch` objects: a few thousand rows as columns, for every format, so that memory stays bounded
for files of any length. Text files may be gzipped; ``-`` is standard input. Errors name the file and the line
(counted from 1, as in editors) or the row (counted from 0, as in tables).
"""

from tamis.files.batches import BadRow, Batch
from tamis.files.events import EventFile
from tamis.files.subscriptions import Record, SubscriptionFile
from tamis.files.writing import open_rows_writer, safe_cell

__all__ = ["BadRow", "Batch", "EventFile", "Record", "SubscriptionFile", "open_rows_writer", "safe_cell"]
