"""An HTTP(S) receiver of webhooks in a thread: it verifies signatures by itself and keeps what it got."""

from __future__ import annotations

import base64
import datetime
import hashlib
import hmac
import http.server
import ipaddress
import json
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

__all__ = ["Receiver", "write_authority"]

#: Answers a request: its headers and its body are given, and the status is returned, with headers perhaps.
Answering = Callable[["Received"], "int | tuple[int, dict[str, str], bytes]"]


class Received:
    """One request."""

    def __init__(self, path: str, headers: dict[str, str], body: bytes) -> None:
        self.path, self.headers, self.body = path, headers, body

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def is_signed_with(self, secret: str) -> bool:
        """Verify as the page about webhooks does."""
        key = base64.b64decode(secret.removeprefix("whsec_"))
        signed = f"{self.headers['webhook-id']}.{self.headers['webhook-timestamp']}.".encode() + self.body
        expected = "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
        return any(hmac.compare_digest(expected, signature) for signature in self.headers["webhook-signature"].split())


class Receiver:
    """A server on loopback; ``answer`` may be replaced while it runs. Port 0: any that is free."""

    def __init__(self, tls: Path | None = None, answer: Answering = lambda request: 204, port: int = 0) -> None:
        self.requests: list[Received] = []
        self.answer = answer
        owner = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                received = Received(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
                result = owner.answer(received)
                status, headers, text = (result, {}, b"") if isinstance(result, int) else result
                if status < 300:
                    owner.requests.append(received)
                self.send_response(status)
                for name, value in ({"content-length": str(len(text))} | headers).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]  # a broker that was killed
        if tls is not None:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(tls / "server.pem", tls / "server.key")
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"{'http' if tls is None else 'https'}://localhost:{self._server.server_address[1]}/hook"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self) -> Receiver:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def events(self) -> list[dict[str, Any]]:
        """The CloudEvents of all requests that were accepted."""
        bodies = [request.json for request in self.requests]
        return [event for body in bodies for event in (body if isinstance(body, list) else [body])]


def write_authority(directory: Path, host: str = "localhost") -> None:
    """Write ``ca.pem``, and ``server.pem`` with ``server.key`` for a host that this authority has signed."""
    now = datetime.datetime.now(datetime.UTC)

    def certificate(name: str, key: Any, issuer: str, signer: Any, *, is_ca: bool) -> x509.Certificate:
        subject, by = (
            x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)]) for common_name in (name, issuer)
        )
        names: list[x509.GeneralName] = [x509.DNSName(name), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        return (
            x509.CertificateBuilder(by, subject, key.public_key(), x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
            .sign(signer, hashes.SHA256())
        )

    authority, server = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    pem = serialization.Encoding.PEM
    (directory / "ca.pem").write_bytes(
        certificate("test-ca", authority, "test-ca", authority, is_ca=True).public_bytes(pem)
    )
    (directory / "server.pem").write_bytes(
        certificate(host, server, "test-ca", authority, is_ca=False).public_bytes(pem)
    )
    private = server.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (directory / "server.key").write_bytes(private)
