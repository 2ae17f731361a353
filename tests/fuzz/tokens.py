"""Random bearer tokens: JSON Web Tokens with changed headers, claims and signatures, and files of the broker's own.

Only a token that the issuer signed as it is may be accepted; all others are refused with 401 or 403. A token file that
cannot be read leaves the last valid tokens in force.
"""

from __future__ import annotations

import atexit
import base64
import json
import random
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from tamis.errors import RefusedError, StoreError
from tamis.runtime.broker.config import JwtConfig
from tamis.runtime.broker.tokens import Tokens
from tamis.runtime.identity.jwt_tokens import JwtTokens
from tests.attacks.issuer import AUDIENCE, ISSUER, Issuer, jwks, plain
from tests.fuzz.harness import Area, damaged_text, document, main, name

CLAIMS = ["iss", "aud", "sub", "iat", "exp", "nbf", "jti", "tamis_namespaces", "tamis_rights", "tamis_policy"]
ODD = [0, -1, 1e400, "x", "", None, [], {}, ["default"], ["*"], "publish subscribe", "admin", 2**70, True, "n > 1", "("]


class Source(NamedTuple):
    """A token, whether its issuer signed it as it is, and the text of a token file."""

    token: str
    is_signed: bool
    file: str


class World:
    """An issuer, and a broker that trusts it."""

    def __init__(self) -> None:
        directory = Path(tempfile.mkdtemp(prefix="tamis-fuzz-"))
        atexit.register(shutil.rmtree, directory, ignore_errors=True)
        self.issuer, self.stranger = Issuer("EdDSA"), Issuer("EdDSA")
        (directory / "jwks.json").write_text(jwks(self.issuer))
        self.path = directory / "tokens.json"
        config = JwtConfig(ISSUER, AUDIENCE, keys=str(directory / "jwks.json"))
        self.jwt = JwtTokens(config, Tokens(directory / "none.json"))
        Tokens(self.path).add("alice", namespaces=("default",))
        self.good = self.path.read_text()


_worlds: list[World] = []


def world() -> World:
    """Return the one issuer and broker of this process."""
    if not _worlds:
        _worlds.append(World())
    return _worlds[0]


def make(rng: random.Random) -> Source:
    """Return a token and a token file."""
    claims = {rng.choice(CLAIMS): rng.choice(ODD) for _ in range(rng.choice([0, 0, 1, 2]))}
    issuer = rng.choice([world().issuer] * 4 + [world().stranger])
    headers: dict[str, Any] = {"kid": rng.choice([issuer.kid] * 5 + ["other", ""])}
    try:
        token = issuer.sign(headers, **claims)
    except Exception:  # the library of the issuer refuses to sign such claims
        token = issuer.sign(headers)
    is_signed = issuer is world().issuer
    if rng.random() < 0.5:
        header, payload, signature = token.split(".")
        parts = [header, payload, signature]
        at = rng.randrange(3)
        parts[at] = rng.choice(
            [plain(_changed(rng, parts[at])), damaged_text(rng, parts[at], "=+/-_.A "), plain(document(rng))]
        )
        changed = rng.choice([".", ".", ".", "..", ""]).join(parts)
        is_signed, token = is_signed and changed == token, changed
    file = damaged_text(rng, world().good, '{}[]",:0') if rng.random() < 0.3 else json.dumps(_file(rng))
    return Source(token, is_signed, file)


def _changed(rng: random.Random, part: str) -> Any:
    """Return the object of a part with another value under one name."""
    try:
        fields = json.loads(base64.urlsafe_b64decode(part + "=="))
    except ValueError:
        return document(rng)
    key = rng.choice([*fields, "alg", "jku", "jwk", "x5u", "crit", "b64"]) if isinstance(fields, dict) else ""
    odd = rng.choice([*ODD, "none", "HS256", "RS256", "EdDSA", "https://evil.example/keys"])
    return {**fields, key: odd} if isinstance(fields, dict) else odd


def _file(rng: random.Random) -> Any:
    tokens = json.loads(world().good)
    return document(rng) if rng.random() < 0.3 else _with_odd_fields(rng, tokens)


def _with_odd_fields(rng: random.Random, value: Any) -> Any:
    if isinstance(value, dict):
        extra = {name(rng): rng.choice(ODD)} if rng.random() < 0.1 else {}
        return {
            key: rng.choice(ODD) if rng.random() < 0.1 else _with_odd_fields(rng, item) for key, item in value.items()
        } | extra
    return [_with_odd_fields(rng, item) for item in value] if isinstance(value, list) else value


def treat(source: Source) -> str:
    """Show the token, and read the file."""
    words = []
    try:
        rights = world().jwt.rights(source.token)
        assert source.is_signed, "a token that its issuer did not sign is accepted"
        words.append(f"accepted for {'all' if rights.namespaces is None else 'some'} namespaces")
    except RefusedError as error:
        if error.code not in (401, 403):
            raise AssertionError("refused as if the broker were at fault") from error
        words.append(str(error.code))
    world().path.write_text(source.file, encoding="utf-8", errors="surrogatepass")
    try:
        Tokens(world().path).all()
        words.append("file taken")
    except StoreError:
        words.append("file refused")
    return ", ".join(words)


AREA = Area("tokens", make, treat)

if __name__ == "__main__":
    sys.exit(main(AREA))
