"""A renewed certificate is used without a restart, a broken one is not; a link trusts the authority that it names."""

from __future__ import annotations

import asyncio
import datetime
import os
import socket
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tamis.errors import ModelError
from tamis.runtime.broker.config import BrokerConfig, LinkConfig, read_config
from tamis.runtime.links.keeping import _serve
from tamis.web.port import certificate
from tests.server.processes import HANGS


def write_certificate(directory: Path, number: int) -> None:
    """Write a certificate with this serial number and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), number)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    for file, data in (("cert.pem", made.public_bytes(serialization.Encoding.PEM)), ("key.pem", private)):
        (directory / "new").write_bytes(data)
        os.replace(directory / "new", directory / file)


def shown_number(port: int) -> int:
    """Return the serial number of the certificate that a server shows."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", port), timeout=HANGS) as plain, context.wrap_socket(plain) as wire:
        certificate = wire.getpeercert(binary_form=True)
    assert certificate is not None
    return x509.load_der_x509_certificate(certificate).serial_number


async def noted(text: str, caplog: pytest.LogCaptureFixture) -> None:
    async with asyncio.timeout(HANGS):
        while text not in caplog.text:
            await asyncio.sleep(0.01)


def test_a_renewed_certificate_is_used_and_a_broken_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(certificate, "LOOK_SECONDS", 0.01)
    paths = str(tmp_path / "cert.pem"), str(tmp_path / "key.pem")

    async def story() -> list[int]:
        write_certificate(tmp_path, 1)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*paths)
        server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0, ssl=context)
        port = server.sockets[0].getsockname()[1]
        watch = asyncio.create_task(certificate.follow_certificate(context, *paths))
        await asyncio.sleep(0.05)
        numbers = [await asyncio.to_thread(shown_number, port)]
        write_certificate(tmp_path, 2)
        await noted("the new certificate is in use", caplog)
        numbers.append(await asyncio.to_thread(shown_number, port))
        (tmp_path / "other").mkdir()
        write_certificate(tmp_path / "other", 3)
        os.replace(tmp_path / "other" / "cert.pem", tmp_path / "cert.pem")  # its key is not there yet
        await noted("the former certificate stays in use", caplog)
        numbers.append(await asyncio.to_thread(shown_number, port))
        watch.cancel()
        server.close()
        return numbers

    assert asyncio.run(story()) == [1, 2, 2]


def test_a_link_trusts_the_authority_that_it_names(tmp_path: Path) -> None:
    """The other end shows a certificate that no authority of the system knows."""

    async def story(ca_file: str) -> str:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
        async with await asyncio.start_server(
            lambda reader, writer: writer.close(), "127.0.0.1", 0, ssl=context
        ) as server:
            port = server.sockets[0].getsockname()[1]
            link = LinkConfig("west", f"https://localhost:{port}", ca_file=ca_file)
            try:
                await _serve(None, BrokerConfig(), link, link.url)  # type: ignore[arg-type]
            except Exception as error:
                return f"{type(error).__name__}: {error}"
        return "connected"

    write_certificate(tmp_path, 1)
    assert "CERTIFICATE_VERIFY_FAILED" in asyncio.run(story(""))
    trusted = asyncio.run(story(str(tmp_path / "cert.pem")))
    assert "CERTIFICATE" not in trusted  # the handshake succeeds; what answers there is no broker
    assert trusted.startswith("InvalidMessage")


def test_an_authority_needs_an_encrypted_link_and_its_file_is_beside_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "broker.toml").write_text('[[links]]\nname = "west"\nurl = "https://west"\nca_file = "ca.pem"\n')
    assert read_config(tmp_path / "broker.toml").links[0].ca_file == str(tmp_path / "ca.pem")
    plain = LinkConfig("west", "http://127.0.0.1:1", ca_file="ca.pem")
    with pytest.raises(ModelError, match="ca_file is for a url with https"):
        BrokerConfig(links=(plain,), schema="s.json").check()
