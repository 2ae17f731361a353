"""The keys that tokens of an issuer are signed with.

A key is good for one algorithm, which follows from its type and never from a token: a public RSA key cannot be taken
for the secret of an HMAC. Keys come from a file, which is read again when it changes, or from an address, which is
asked every few minutes and when a token names an unknown key. Keys that can no longer be read stay valid until the next
good answer.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt import PyJWK

from tamis.errors import ModelError
from tamis.runtime.broker.config import JwtConfig

__all__ = ["KeySet", "VerificationKey", "read_keys"]

#: Bytes of a key set, and keys in it.
MAX_KEY_BYTES, MAX_KEYS = 256 * 1024, 100

#: Bits of an RSA key, and bytes of the secret of HS256, at least (RFC 7518).
MIN_RSA_BITS, MIN_SECRET = 2_048, 32

#: Seconds between two looks at a file, between two questions to an address, and at least between two of them when
#: tokens name unknown keys.
LOOK_SECONDS, REFRESH_SECONDS, HASTE_SECONDS = 2.0, 300.0, 30.0

#: Seconds for an answer.
ANSWER_SECONDS: Final = 5.0

_log = logging.getLogger("tamis")


@dataclass(frozen=True)
class VerificationKey:
    """A key, the one algorithm that it is for, and its name, "" without one; ``mark`` tells it from all other keys."""

    id: str
    algorithm: str
    value: Any = field(repr=False)
    mark: str


class KeySet:
    """The keys of a configuration, as they are now."""

    def __init__(self, config: JwtConfig) -> None:
        self._config = config
        self._keys: tuple[VerificationKey, ...] = ()
        self._stamp: tuple[int, int] | None = None
        #: When the issuer is asked for its keys next, and when it was asked last.
        self._next = 0.0
        self._last_request = 0.0
        if not config.keys_url:
            self._read_file()

    def find(self, id: str | None, algorithm: str) -> VerificationKey | None:
        """Return the key that a token names, or the only one of its algorithm when it names none."""
        keys = [key for key in self._keys if key.algorithm == algorithm and id in (None, key.id)]
        if not keys and id is not None:
            self._next = min(self._next, self._last_request + HASTE_SECONDS)  # the issuer may have new keys
        return keys[0] if len(keys) == 1 else None

    def named(self, id: str | None) -> list[VerificationKey]:
        """Return the keys of a name, whatever they are for; none without a name."""
        return [key for key in self._keys if id is not None and key.id == id]

    def has(self, mark: str) -> bool:
        """Whether the key with a mark is still valid."""
        return any(key.mark == mark for key in self._keys)

    async def follow(self) -> None:
        """Load new keys for as long as the broker runs."""
        while True:
            try:
                await self.look()
            except (ModelError, OSError, ValueError) as error:
                _log.warning("keys of [auth.jwt]: %s; the keys that were valid before stay valid", error)
            await asyncio.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        """Read the file if it has changed, or request the keys from the address if it is time."""
        if not self._config.keys_url:
            self._read_file()
        elif time.monotonic() >= self._next:
            self._last_request = time.monotonic()
            self._next = self._last_request + HASTE_SECONDS  # if this request fails
            self._keys = read_keys(await asyncio.to_thread(_fetch, self._config.keys_url), self._config.algorithms)
            self._next = self._last_request + REFRESH_SECONDS

    def _read_file(self) -> None:
        path = Path(self._config.secret_file or self._config.keys)
        try:
            status = path.stat()
            if (stamp := (status.st_mtime_ns, status.st_size)) == self._stamp:
                return
            data = path.read_bytes()
        except OSError as error:
            raise ModelError(f"[auth.jwt]: {path}: {error.strerror}") from None
        self._stamp = stamp
        self._keys = (_secret(data),) if self._config.secret_file else read_keys(data, self._config.algorithms)


def read_keys(data: bytes, algorithms: Iterable[str]) -> tuple[VerificationKey, ...]:
    """Return the public keys of a JWKS document or of PEM for some algorithms; `ModelError` when there is none."""
    if len(data) > MAX_KEY_BYTES:
        raise ModelError(f"a key set has at most {MAX_KEY_BYTES:,} bytes, got {len(data):,}")
    keys = [_pem_key(data)] if b"-----BEGIN" in data else _jwks_keys(data)
    usable = tuple(key for key in keys if key.algorithm in algorithms)
    if not usable:
        raise ModelError(f"no key for {', '.join(algorithms)} in the key set")
    return usable


def _jwks_keys(data: bytes) -> list[VerificationKey]:
    try:
        entries = json.loads(data)["keys"]
        if not isinstance(entries, list) or len(entries) > MAX_KEYS:
            raise ModelError(f"a JWKS document has a list of at most {MAX_KEYS} keys")
        signing = [entry for entry in entries if entry.get("use", "sig") == "sig"]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ModelError('not a JWKS document: expected {"keys": [...]}') from None
    return [key for entry in signing if (key := _jwk(entry)) is not None]


def _jwk(entry: Mapping[str, Any]) -> VerificationKey | None:
    """Return a key of a JWKS document; None for a kind that is not used here."""
    if entry.get("kty") == "oct" or "d" in entry:
        raise ModelError("a JWKS document for [auth.jwt] holds public keys only; an HMAC secret goes to secret_file")
    try:
        value = PyJWK(dict(entry)).key
    except Exception as error:  # one bad key of an issuer must not lock out the tokens of its other keys
        _log.warning("keys of [auth.jwt]: a key cannot be read: %s", error)
        return None
    algorithm = _algorithm(value)
    if algorithm is None or entry.get("alg", algorithm) != algorithm:
        return None
    return VerificationKey(str(entry.get("kid", "")), algorithm, value, _mark(value))


def _pem_key(data: bytes) -> VerificationKey:
    try:
        value = serialization.load_pem_public_key(data)
    except ValueError:
        raise ModelError("not a public key in PEM: expected -----BEGIN PUBLIC KEY-----") from None
    algorithm = _algorithm(value)
    if algorithm is None:
        raise ModelError("a public key is RSA, EC on P-256 or Ed25519")
    return VerificationKey("", algorithm, value, _mark(value))


def _algorithm(value: object) -> str | None:
    """Return the algorithm that a public key is for; `ModelError` for an RSA key that is too short."""
    if isinstance(value, rsa.RSAPublicKey):
        if value.key_size < MIN_RSA_BITS:
            raise ModelError(f"an RSA key has at least {MIN_RSA_BITS:,} bits, got {value.key_size:,}")
        return "RS256"
    if isinstance(value, ec.EllipticCurvePublicKey):
        return "ES256" if isinstance(value.curve, ec.SECP256R1) else None
    return "EdDSA" if isinstance(value, ed25519.Ed25519PublicKey) else None


def _mark(value: Any) -> str:
    form, kind = serialization.PublicFormat.SubjectPublicKeyInfo, serialization.Encoding.DER
    return hashlib.sha256(value.public_bytes(kind, form)).hexdigest()


def _secret(data: bytes) -> VerificationKey:
    if len(data.strip()) < MIN_SECRET:
        raise ModelError(f"a secret for HS256 has at least {MIN_SECRET} bytes")
    return VerificationKey("", "HS256", data.strip(), hashlib.sha256(b"mark" + data).hexdigest())


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Refuses redirections: they could lead to an address without TLS, or into the broker's own network."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _fetch(url: str) -> bytes:
    """Return what an address answers, at most one byte more than a key set may have."""
    opener = urllib.request.build_opener(_NoRedirects, urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=ANSWER_SECONDS) as answer:
            data: bytes = answer.read(MAX_KEY_BYTES + 1)
    except urllib.error.HTTPError as error:
        with error:
            raise ModelError(f"{url} answers with status {error.code}") from None
    return data
