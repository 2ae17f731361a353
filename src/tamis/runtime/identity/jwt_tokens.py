"""JSON Web Tokens of another issuer as tokens of a broker (promise S3).

A token is checked in this order: its size and shape, the algorithm and the key that it names, its signature, issuer,
audience and times, and only then its claims. What it allows is said by its claims alone: without namespaces or rights
it allows nothing. A client that is connected by one is cut off when it expires, is revoked, or its key is withdrawn, as
with the broker's own tokens.
"""

from __future__ import annotations

import hashlib
import re
import time
from typing import Any

import jwt

from tamis.errors import ModelError, RefusedError, TamisError
from tamis.model.language.parse import parse
from tamis.routing.edge.limits import MAX_NAME, MAX_SUBSCRIPTIONS
from tamis.routing.edge.rights import Rights
from tamis.runtime.broker.config import JwtConfig
from tamis.runtime.broker.tokens import Tokens, jti_digest
from tamis.runtime.identity.key_set import KeySet, VerificationKey

__all__ = ["PREFIX", "JwtTokens"]

#: The prefix of the subject of a JWT, so that it cannot equal the name of a token of the broker itself.
PREFIX = "jwt/"

#: All namespaces.
EVERY = "*"

_SHAPE = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+", re.ASCII)

_UNSIGNED = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.", re.ASCII)
_DETACHED = re.compile(r"[A-Za-z0-9_-]+\.\.[A-Za-z0-9_-]+", re.ASCII)

_NOT_SIGNED = "the JWT is not signed; unsigned tokens are not accepted"

#: Messages of PyJWT that name Python's parser, and ours.
_PLAIN_WORDS = {
    "recursion": "it is nested too deeply",
    "Invalid header string": "its header is not a JSON object",
    "Invalid payload string": "its claims are not a JSON object",
    "Invalid header padding": "its header is not base64url",
    "Invalid payload padding": "its claims are not base64url",
    "Invalid crypto padding": "its signature is not base64url",
    "b64": "its claims are not base64url (b64 in its header)",
    "Key ID header parameter": "kid in its header is not text",
}

_RIGHTS = ("publish", "subscribe", "admin")


class JwtTokens:
    """Reads the tokens of one issuer."""

    def __init__(self, config: JwtConfig, tokens: Tokens) -> None:
        self._config = config
        self._tokens = tokens
        self.keys = KeySet(config)

    def rights(self, token: str) -> Rights:
        """Return what the bearer of a token may do; `RefusedError` says why it is not accepted."""
        try:
            key = self._key(token)
            claims = jwt.decode(
                token,
                key.value,
                algorithms=[key.algorithm],
                audience=self._config.audience,
                issuer=self._config.issuer,
                leeway=self._config.leeway,
                options={"require": ["exp", "iss", "aud", self._config.claims.principal], "strict_aud": False},
            )
            end = int(claims["exp"] + self._config.leeway)
        except jwt.PyJWTError as error:
            raise RefusedError(401, f"the JWT is not accepted: {_in_words(str(error))}") from None
        except TamisError:
            raise
        except Exception as error:  # whatever the parser raises is the sender's doing
            raise RefusedError(401, f"the JWT cannot be read ({type(error).__name__})") from None
        digest = _digest(token, end, key, claims.get("jti"))
        if not self.is_live(digest):
            raise RefusedError(401, "the JWT was revoked or has expired")
        return self._allowed(claims, digest)

    def is_live(self, digest: str) -> bool:
        """Whether the token of `Rights.digest` is still valid: not expired, not revoked, its key not withdrawn."""
        _, _, end, mark, _ = digest.split(" ")
        return float(end) > time.time() and self.keys.has(mark) and not self.is_revoked(digest)

    def is_revoked(self, digest: str) -> bool:
        """Whether the token of `Rights.digest` was revoked at this broker, by its text or its ``jti``."""
        _, sha256, _, _, jti = digest.split(" ")
        return bool({sha256, jti} & self._tokens.revoked())

    def _key(self, token: str) -> VerificationKey:
        if _UNSIGNED.fullmatch(token):
            raise RefusedError(401, _NOT_SIGNED)
        if _DETACHED.fullmatch(token):
            raise RefusedError(401, "the JWT has no claims in it; detached payloads are not accepted")
        if not _SHAPE.fullmatch(token):
            raise RefusedError(401, "the JWT cannot be read: expected three parts of base64url")
        header = jwt.get_unverified_header(token)
        id, algorithm = header.get("kid"), header.get("alg")
        if not isinstance(algorithm, str):
            raise RefusedError(401, "the header of the JWT names no algorithm (alg)")
        if algorithm.lower() == "none":
            raise RefusedError(401, _NOT_SIGNED)
        if algorithm not in self._config.algorithms:
            raise RefusedError(401, f"the JWT is signed by {algorithm[:20]!r}, see `algorithms` in [auth.jwt]")
        key = self.keys.find(id, algorithm)
        if key is not None:
            return key
        others = [key.algorithm for key in self.keys.named(id)]
        if others and algorithm not in others:
            raise RefusedError(401, f"the JWT is signed by {algorithm}, but the key that it names is for {others[0]}")
        raise RefusedError(401, "the JWT names no key of its issuer")

    def _allowed(self, claims: dict[str, Any], digest: str) -> Rights:
        names = self._config.claims
        namespaces, rights = _words(claims, names.namespaces), _words(claims, names.rights)
        if unknown := [word for word in rights if word not in _RIGHTS]:
            raise RefusedError(
                403, f"the claim {names.rights!r} of the JWT has {unknown[0][:40]!r}: {', '.join(_RIGHTS)}"
            )
        if not rights or not namespaces:
            raise RefusedError(403, f"the JWT allows nothing: it needs {names.namespaces!r} and {names.rights!r}")
        return Rights(
            _principal(claims[names.principal]),
            None if EVERY in namespaces else frozenset(namespaces),
            "publish" in rights,
            "subscribe" in rights,
            "admin" in rights,
            _policy(claims.get(names.policy), names.policy),
            _count(claims.get(names.max_subscriptions), names.max_subscriptions),
            digest=digest,
        )


def _in_words(problem: str) -> str:
    return next((words for sign, words in _PLAIN_WORDS.items() if sign in problem), problem)


def _digest(token: str, end: int, key: VerificationKey, jti: object) -> str:
    """Return what a connection remembers of a token: enough to see that it ended, too little to use it."""
    name = jti_digest(jti) if isinstance(jti, str) else "-"
    return f"jwt {hashlib.sha256(token.encode()).hexdigest()} {end} {key.mark} {name}"


def _principal(subject: object) -> str:
    """Return the name of a principal: links are named after it, with colons between the parts, so it has none."""
    if not isinstance(subject, str) or not 0 < len(subject) <= MAX_NAME or not subject.isprintable():
        raise RefusedError(403, f"the subject of a JWT is text of 1 to {MAX_NAME} printable characters")
    return PREFIX + subject.replace("%", "%25").replace(":", "%3A")


def _words(claims: dict[str, Any], name: str) -> list[str]:
    """Return a claim that is a list of words, or text with blanks between them as ``scope`` is."""
    value = claims.get(name, [])
    words = value.split() if isinstance(value, str) else value
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise RefusedError(403, f"the claim {name!r} of the JWT is not a list of words")
    return words


def _policy(value: object, name: str) -> str | None:
    if value is None:
        return None
    try:
        if not isinstance(value, str):
            raise ModelError("expected CQL2 text")
        parse(value)
    except TamisError as error:
        raise RefusedError(403, f"the claim {name!r} of the JWT is not a filter: {error}") from None
    return value


def _count(value: object, name: str) -> int:
    if value is None:
        return MAX_SUBSCRIPTIONS
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_SUBSCRIPTIONS:
        raise RefusedError(403, f"the claim {name!r} of the JWT is a whole number from 0 to {MAX_SUBSCRIPTIONS:,}")
    return value
