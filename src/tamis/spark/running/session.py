"""A Spark session that just works on one machine, and what every function asks of a session.

Nothing here is needed by those who bring their own session: the functions of `tamis.spark` take the session
from the DataFrames they are given.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from tamis.errors import MissingExtraError, ModelError
from tamis.spark.running.daemon import daemon_settings
from tamis.spark.running.java import java_home

try:
    from pyspark.sql import SparkSession
except ImportError:
    raise MissingExtraError("tamis.spark", "spark") from None

from tamis.spark.broker.data_source import register_broker

__all__ = ["session"]

_LOOPBACK = "127.0.0.1"
_LOGGING = Path(__file__).with_name("log4j2.properties")

#: One place for every setting, with its reason.
_SETTINGS = {
    "spark.ui.enabled": "false",  # no listener without a request for it
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": _LOOPBACK,
    "spark.driver.host": _LOOPBACK,
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "8",  # Spark's 200 are for clusters
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.python.worker.reuse": "true",  # a worker keeps its mapped snapshot between tasks
}


def session(
    master: str | None = None, *, name: str = "tamis", remote: str | None = None, **settings: Any
) -> SparkSession:
    """Return a session for this machine: quiet, bound to loopback, with this interpreter as its workers.

    Parameters
    ----------
    master
        ``local[*]`` when not given; any master URL of Spark.
    remote
        A Spark Connect server (``sc://host:15002``), or ``local[2]`` to start one here, instead of a master.
    settings
        Spark settings, with ``_`` for the dots: ``spark_driver_memory="2g"``.

    It knows the format ``tamis`` (`register_broker`). A session that is already running is returned as it is; Java is
    brought along when the machine has none.
    """
    if master is not None and remote is not None:
        raise ModelError("a session has a master or a remote, not both")
    _prepare_environment()
    master = master or os.environ.get("SPARK_MASTER", "local[*]")
    chosen = {
        **_SETTINGS,
        **daemon_settings(master),
        **{key.replace("_", "."): str(value) for key, value in settings.items()},
    }
    if remote is not None:  # the server has the rest of its settings already
        chosen = {key: value for key, value in chosen.items() if key.startswith("spark.sql.")}
    else:
        logging = f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}"
        chosen["spark.driver.extraJavaOptions"] = f"{logging} {chosen.get('spark.driver.extraJavaOptions', '')}".strip()
    builder = SparkSession.builder.appName(name)
    for key, value in chosen.items():
        builder = builder.config(key, value)
    if remote is not None:
        spark = builder.remote(remote).getOrCreate()
    else:
        spark = builder.master(master).getOrCreate()
    register_broker(spark)
    return spark


def _prepare_environment() -> None:
    """Tell Spark's processes which Java, which Python and which address to use; what the user set stays."""
    home = java_home()
    if home is not None:
        os.environ["JAVA_HOME"] = home
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
