"""Who may speak to a peer: TLS and a shared token, or certificates on both sides.

The rule is that of a broker (promise S1): a peer that other machines can reach must have TLS and a token, or it does
not start. With an authority, every peer must show a certificate of that authority, and a token may be left out.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from tamis.errors import ModelError
from tamis.runtime.client.clear_text import is_loopback

__all__ = ["MIN_TOKEN", "PeerSecurity"]

#: Characters of a token: a shorter one could be guessed from what two peers say to each other.
MIN_TOKEN = 32


@dataclass(frozen=True)
class PeerSecurity:
    """The token and the TLS files of a peer; ``authority`` signs the certificates of all peers."""

    token: str = field(default="", repr=False)
    certificate: Path | None = None
    key: Path | None = None
    authority: Path | None = None

    def check(self, host: str) -> None:
        """Raise `ModelError` when a peer must not listen on a host with this."""
        if (self.certificate is None) != (self.key is None):
            raise ModelError("--tls-certificate and --tls-key go together")
        if self.authority is not None and self.certificate is None:
            raise ModelError("--tls-authority needs --tls-certificate and --tls-key")
        if self.token and len(self.token) < MIN_TOKEN:
            raise ModelError(f"a token has at least {MIN_TOKEN} characters: make one with openssl rand -hex 32")
        if not is_loopback(host) and not (self.certificate and (self.token or self.authority)):
            raise ModelError(
                f"other machines can reach {host}: set --tls-certificate, --tls-key and --token-file"
                " (or --tls-authority)"
            )
        if self.certificate is not None:
            _ = self.listening, self.dialling  # files that cannot be read are named before anything starts

    @cached_property
    def listening(self) -> ssl.SSLContext | None:
        """What connections to this peer are encrypted with; None without TLS."""
        if self.certificate is None or self.key is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        _load(context, self.certificate, self.key)
        if self.authority is not None:
            _trust(context, self.authority)
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    @cached_property
    def dialling(self) -> ssl.SSLContext | None:
        """What connections from this peer are encrypted with: they check the certificate and the host name."""
        if self.certificate is None or self.key is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        _load(context, self.certificate, self.key)
        if self.authority is None:
            context.load_default_certs()
        else:
            _trust(context, self.authority)
        return context


def _load(context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    try:
        context.load_cert_chain(certificate, key)
    except OSError as error:
        raise ModelError(f"{certificate}, {key}: not a certificate and its key: {error}") from None


def _trust(context: ssl.SSLContext, authority: Path) -> None:
    try:
        context.load_verify_locations(authority)
    except OSError as error:
        raise ModelError(f"{authority}: not certificates of an authority: {error}") from None
