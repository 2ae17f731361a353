"""An issuer of JSON Web Tokens: keys that are made for the test, and whatever token an attacker would sign."""

from __future__ import annotations

import base64
import json
import time
from dataclasses import dataclass
from typing import Any

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

ISSUER, AUDIENCE = "https://login.example", "tamis"

MAKERS: dict[str, Any] = {
    "RS256": lambda: rsa.generate_private_key(65537, 2048),
    "ES256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "EdDSA": ed25519.Ed25519PrivateKey.generate,
}


def plain(part: object) -> str:
    """Return a part of a token that no library would write."""
    return base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()


@dataclass
class Issuer:
    """A signing key and what tokens say unless told otherwise."""

    algorithm: str = "RS256"
    kid: str = "key-1"
    key: Any = None

    def __post_init__(self) -> None:
        self.key = self.key or MAKERS[self.algorithm]()

    def jwk(self) -> dict[str, Any]:
        kind: Any = jwt.get_algorithm_by_name(self.algorithm)
        return {**json.loads(kind.to_jwk(self.key.public_key())), "kid": self.kid, "use": "sig"}

    def pem(self) -> bytes:
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        encoded: bytes = self.key.public_key().public_bytes(serialization.Encoding.PEM, form)
        return encoded

    def payload(self, **claims: Any) -> dict[str, Any]:
        now = time.time()
        usual = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "sub": "alice",
            "iat": now,
            "exp": now + 3600,
            "tamis_namespaces": ["default"],
            "tamis_rights": ["publish", "subscribe"],
        }
        return {name: value for name, value in {**usual, **claims}.items() if value is not None}

    def sign(self, headers: dict[str, Any] | None = None, **claims: Any) -> str:
        return jwt.encode(
            self.payload(**claims), self.key, self.algorithm, {"kid": self.kid} if headers is None else headers
        )


def jwks(*issuers: Issuer) -> str:
    return json.dumps({"keys": [issuer.jwk() for issuer in issuers]})
