"""Attack: a listener on the network reads or joins a network of peers that runs without TLS, or without tokens."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from pathlib import Path

import pytest

from tamis.errors import ModelError
from tamis.runtime.peer.process import PeerProcess
from tamis.runtime.peer.security import PeerSecurity
from tests.attacks.peers import SCHEMA, TOKEN, Attacker, PeerProgram, peer_program, started, until
from tests.server.processes import HANGS

needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="not run: openssl makes the certificates")


def openssl(*words: str) -> None:
    subprocess.run(["openssl", *words], check=True, capture_output=True)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An authority, a certificate of its own for loopback, and one that another authority signed."""
    here = tmp_path_factory.mktemp("tls")
    new = ["req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=peer"]
    (here / "names").write_text("subjectAltName=IP:127.0.0.1")
    for authority, peer in (("authority", "peer"), ("stranger", "impostor")):
        pair = ["-keyout", f"{here}/{authority}.key", "-out", f"{here}/{authority}.pem"]
        openssl(*new, "-x509", "-days", "2", *pair)
        openssl(*new, "-keyout", f"{here}/{peer}.key", "-out", f"{here}/{peer}.csr")
        signed_by = ["-CA", f"{here}/{authority}.pem", "-CAkey", f"{here}/{authority}.key", "-CAcreateserial"]
        request = ["-in", f"{here}/{peer}.csr", "-out", f"{here}/{peer}.pem", "-extfile", f"{here}/names"]
        openssl("x509", "-req", "-days", "2", *signed_by, *request)
    return here


def security(files: Path, name: str = "peer", authority: str = "authority", token: str = "") -> PeerSecurity:
    return PeerSecurity(token, files / f"{name}.pem", files / f"{name}.key", files / f"{authority}.pem")


TOO_WEAK = [
    PeerSecurity(),
    PeerSecurity(token=TOKEN),
    PeerSecurity(certificate=Path("c"), key=Path("k")),
]


@pytest.mark.parametrize("weak", TOO_WEAK, ids=["nothing", "a token", "TLS"])
@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::", "peers.example"])
def test_a_peer_that_others_can_reach_needs_tls_and_a_token(weak: PeerSecurity, host: str) -> None:
    with pytest.raises(ModelError, match=f"other machines can reach {host}"):
        weak.check(host)


def test_files_go_together() -> None:
    with pytest.raises(ModelError, match="go together"):
        PeerSecurity(TOKEN, certificate=Path("c")).check("127.0.0.1")
    with pytest.raises(ModelError, match="--tls-authority needs"):
        PeerSecurity(TOKEN, authority=Path("a")).check("127.0.0.1")
    with pytest.raises(ModelError, match=r"absent.pem.*not a certificate"):
        PeerSecurity(TOKEN, Path("absent.pem"), Path("absent.key")).check("192.0.2.1")


def test_the_command_does_not_start_in_the_open(tmp_path: Path) -> None:
    program = PeerProgram(tmp_path, "--host", "0.0.0.0", token=TOKEN)
    assert program.process.wait(HANGS) == 2
    assert "set --tls-certificate, --tls-key and --token-file" in program.log()
    assert program.lines() == []


@needs_openssl
def test_peers_over_tls_deliver(files: Path, tmp_path: Path) -> None:
    tls = [f"--tls-{option}={files}/{name}" for option, name in (("certificate", "peer.pem"), ("key", "peer.key"))]
    arguments = [*tls, f"--tls-authority={files}/authority.pem", "--subscribe", "mag >= 5"]

    async def story(target: PeerProgram) -> None:
        peer = PeerProcess(SCHEMA, join=target.name, round_seconds=0.1, security=security(files, token=TOKEN))
        async with started(peer):
            assert await peer.finds_contact()
            peer.subscribe("mag >= 1", id="mine")
            await until(lambda: peer.is_active("mine"))
            peer.publish({"mag": 7.0, "depth": 1.0})
            await until(lambda: len(target.lines()) > 1)

    with peer_program(tmp_path, *arguments, token=TOKEN) as target:
        asyncio.run(asyncio.wait_for(story(target), HANGS))
        with Attacker(target.port) as attacker:  # without TLS there is not even a greeting
            attacker.frame(b"x" * 100)
            assert b"tamis" not in attacker.read()
        target.wait_for("TLS: ")


@needs_openssl
@pytest.mark.parametrize("role", ["dialler", "listener"])
def test_a_certificate_of_another_authority_is_refused(files: Path, role: str) -> None:
    """A dialler that is an impostor is turned away, and an honest dialler does not talk to one that listens."""
    mine, theirs = security(files), security(files, "impostor", "authority" if role == "dialler" else "stranger")
    notices: list[str] = []

    async def story() -> None:
        first, second = (mine, theirs) if role == "dialler" else (theirs, mine)
        async with started(PeerProcess(SCHEMA, security=first, report=notices.append)) as peer:
            other = PeerProcess(SCHEMA, join=peer.name, security=second, report=notices.append)
            async with started(other):
                with pytest.raises(ModelError, match="TLS" if role == "listener" else "TLS|closed the connection"):
                    await other.finds_contact()
                await until(lambda: role == "listener" or any("TLS" in notice for notice in notices))

    asyncio.run(asyncio.wait_for(story(), HANGS))


@needs_openssl
def test_a_peer_without_tls_is_told_so(files: Path) -> None:
    async def story() -> None:
        async with started(PeerProcess(SCHEMA, security=security(files), report=[].append)) as peer:
            other = PeerProcess(SCHEMA, join=peer.name, report=[].append)
            async with started(other):
                with pytest.raises(ModelError, match="do both peers use TLS"):
                    await other.finds_contact()

    asyncio.run(asyncio.wait_for(story(), HANGS))
