"""Files of events and of subscriptions: JSONL, JSON, CSV and Parquet, read in batches and written whole.

Events come as `Batch`: a few thousand rows as columns, whatever the file was, so that memory stays bounded
however long the file is. Text files may be gzipped; ``-`` is standard input. Errors name the file and the
line (counted from 1, as editors do) or the row (counted from 0, as tables do).
"""

from tamis.files.batches import BadRow, Batch
from tamis.files.events import EventFile
from tamis.files.subscriptions import Record, SubscriptionFile
from tamis.files.writing import open_rows_writer, safe_cell

__all__ = ["BadRow", "Batch", "EventFile", "Record", "SubscriptionFile", "open_rows_writer", "safe_cell"]
