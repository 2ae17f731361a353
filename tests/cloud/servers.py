"""An S3 server on loopback in a process of its own, and a proxy in front of it that loses or delays answers."""

from __future__ import annotations

import http.client
import http.server
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

__all__ = ["BUCKET", "Proxy", "S3Server", "environment"]

BUCKET = "tamis-rules"

_SERVER = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
host, port = server.get_host_and_port()
import boto3
keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
client = boto3.client("s3", endpoint_url=f"http://{host}:{port}", region_name="us-east-1", **keys)
client.create_bucket(Bucket=sys.argv[1])
print(f"READY http://{host}:{port}", flush=True)
sys.stdin.read()
"""


class S3Server:
    """A server with one bucket; it ends with its standard input."""

    def __init__(self) -> None:
        command = [sys.executable, "-c", _SERVER, BUCKET]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._process.stdout is not None
        line = next(line for line in self._process.stdout if line.startswith("READY"))
        self.url = line.split()[1]

    def close(self) -> None:
        """End the server."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)
        assert self._process.stdout is not None
        self._process.stdout.close()


def environment(url: str, cache: Path) -> dict[str, str]:
    """Return the environment in which a process finds the server at ``url``."""
    keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1"}
    return {**keys, "AWS_ENDPOINT_URL": url, "TAMIS_SNAPSHOT_CACHE": str(cache)}


class Proxy:
    """Passes requests on; ``fault(method, path)`` says what happens to the answer: "lose", "fail", seconds or None."""

    def __init__(self, target: str) -> None:
        self.fault: Callable[[str, str], Any] = lambda method, path: None
        self.requests: list[tuple[str, str]] = []
        proxy, host = self, urlsplit(target).netloc

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _pass(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                proxy.requests.append((self.command, self.path))
                fault = proxy.fault(self.command, self.path)
                if fault == "fail":
                    self.send_error(503)
                    return
                connection = http.client.HTTPConnection(host)
                connection.request(self.command, self.path, body, dict(self.headers))
                answer = connection.getresponse()
                data = answer.read()
                if fault == "lose":  # the store has done it, and the client gets no answer
                    self.close_connection = True
                    return
                if isinstance(fault, float):
                    time.sleep(fault)
                self.send_response(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                        self.send_header(name, value)
                length = answer.getheader("content-length") if self.command == "HEAD" else str(len(data))
                self.send_header("content-length", length or "0")
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = _pass

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """End the proxy."""
        self._server.shutdown()
        self._server.server_close()
