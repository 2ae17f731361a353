"""Iceberg tables through the ``pyiceberg`` package: a catalog tells which files are the table, the executors read them.

A table is called ``catalog.namespace.table``. Where the catalog is, and what opens it, is in pyiceberg's own settings:
``~/.pyiceberg.yaml`` or the environment (``PYICEBERG_CATALOG__PROD__URI`` for a catalog ``prod``). The version is the
newest at the time of the call; rows that positions of a delete file name are left out. Spark needs no jar.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from tamis.errors import MissingExtraError, ModelError, TableError, TamisError
from tamis.spark.columns import arrow_form

__all__ = ["IcebergCatalog", "catalog_of", "explained", "file_settings", "read_iceberg"]

#: Settings of a table that are about its files; the others are the catalog's, with its passwords and tokens.
_ABOUT_FILES = ("s3.", "gcs.", "adls.", "hdfs.", "client.", "py-io-impl")
#: Tasks that share the files of a table.
_MOST_TASKS = 1_000


@dataclass(frozen=True)
class IcebergCatalog:
    """A catalog and the name of a table in it."""

    catalog: Any
    #: ``namespace.table``
    name: str
    #: As the user names it, for messages.
    target: str

    def find(self) -> Any:
        """Return the table as it is now, None if there is none."""
        from pyiceberg.exceptions import NoSuchTableError

        with explained(self.target):
            try:
                return self.catalog.load_table(self.name)
            except NoSuchTableError:
                return None

    @property
    def namespace(self) -> str:
        """The namespace of the table."""
        return self.name.rpartition(".")[0]


@dataclass(frozen=True)
class FileRead:
    """What the workers need to know; it travels pickled inside Spark."""

    #: Where the metadata of the version is.
    metadata: str
    settings: Mapping[str, str]
    #: A `FileScanTask` of each data file.
    files: tuple[Any, ...]
    form: pa.Schema


def catalog_of(target: str) -> IcebergCatalog:
    """Return the catalog of ``catalog.namespace.table``; say which extra or which setting is missing."""
    try:
        from pyiceberg.catalog import load_catalog
        from pyiceberg.utils.config import Config
    except ImportError:
        raise MissingExtraError("an Iceberg table", "iceberg") from None
    catalog, _, name = target.partition(".")
    if not catalog or not all(name.split(".")) or "." not in name:
        raise ModelError(f"{target!r} is not the name of an Iceberg table: catalog.namespace.table")
    config = Config()
    settings: Any = config.get_catalog_config(catalog)
    if settings is None:
        names = ", ".join(sorted(config.get_known_catalogs())) or "none"
        variable = f"PYICEBERG_CATALOG__{catalog.upper()}__URI"
        raise ModelError(
            f"there is no Iceberg catalog {catalog!r} (known: {names}); name it in ~/.pyiceberg.yaml or set {variable}"
        )
    with explained(target):
        return IcebergCatalog(load_catalog(catalog, **settings), name, target)


def read_iceberg(spark: SparkSession, target: str) -> DataFrame:
    """Return a table as its catalog has it now; `TableError` where it cannot be read right."""
    table = catalog_of(target).find()
    if table is None:
        raise TableError(f"{target}: there is no such Iceberg table")
    with explained(target):
        # Raises for equality deletes: which rows they mean is not known from positions.
        files = tuple(_scanned(task) for task in table.scan().plan_files())
        form = table.schema().as_arrow()
    columns = from_arrow_schema(form, prefer_timestamp_ntz=True)
    if not files:
        return spark.createDataFrame([], columns)
    numbers = spark.range(0, len(files), 1, min(len(files), _MOST_TASKS))
    task = FileRead(table.metadata_location, file_settings(table), files, arrow_form(columns, numbers))
    return numbers.mapInArrow(partial(read_files, task=task), columns)


def read_files(batches: Iterator[pa.RecordBatch], *, task: FileRead) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the files numbered in the batches, in the worker."""
    from pyiceberg.expressions import AlwaysTrue
    from pyiceberg.io.pyarrow import ArrowScan
    from pyiceberg.table import StaticTable

    table = StaticTable.from_metadata(task.metadata, dict(task.settings))
    scan = ArrowScan(table.metadata, table.io, table.schema(), AlwaysTrue())
    for batch in batches:
        for number in batch.column(0).to_pylist():
            for rows in scan.to_record_batches([task.files[number]]):
                columns = [rows.column(field.name).cast(field.type) for field in task.form]
                yield pa.RecordBatch.from_arrays(columns, schema=task.form)


def file_settings(table: Any) -> dict[str, str]:
    """Return what a worker needs to open the files of a table, without the secrets of the catalog."""
    return {name: str(value) for name, value in table.io.properties.items() if name.startswith(_ABOUT_FILES)}


@contextmanager
def explained(target: str) -> Iterator[None]:
    """Turn what pyiceberg or its catalog raises into an error of one line that names the table."""
    try:
        yield
    except TamisError:
        raise
    except Exception as error:  # pyiceberg, its catalogs and its file systems have no class of errors in common
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise TableError(f"{target}: Iceberg: {lines[0]}") from error


def _scanned(task: Any) -> Any:
    """Return what reading a file needs of its description, which has statistics of all columns otherwise."""
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import FileScanTask

    def plain(file: Any) -> Any:
        fields = ("content", "file_path", "file_format", "partition", "record_count", "file_size_in_bytes")
        data_file = DataFile.from_args(**{name: getattr(file, name) for name in fields})
        data_file.spec_id = file.spec_id
        return data_file

    return FileScanTask(plain(task.file), {plain(file) for file in task.delete_files})
