"""Tokens: who may speak to a broker, and what they may do.

A token is 256 random bits, shown once when it is made. The file holds its SHA-256 and nothing that could be used
(promise S2). A running broker looks at the file again whenever it changes, so that adding and revoking need no
restart, and whoever holds a revoked token is cut off within seconds (S4).
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import time
from pathlib import Path

import msgspec

from tamis.errors import RefusedError, StoreError
from tamis.routing.rights import MAX_SUBSCRIPTIONS, Rights
from tamis.runtime.config import BrokerConfig

__all__ = ["LOCAL", "Token", "Tokens", "tokens_of"]


#: The principal that everybody on this machine is, where no tokens are required.
LOCAL = "local"


class Token(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What the file knows of one token; ``broker`` is the name of the broker that links with it, if one does."""

    name: str
    sha256: str
    created: float
    expires: float | None = None
    namespaces: tuple[str, ...] | None = None
    may_publish: bool = True
    may_subscribe: bool = True
    is_admin: bool = False
    broker: str = ""
    policy: str | None = None
    max_subscriptions: int = MAX_SUBSCRIPTIONS

    def rights(self) -> Rights:
        """Return what its holder may do."""
        names = None if self.namespaces is None else frozenset(self.namespaces)
        return Rights(
            self.name, names, self.may_publish, self.may_subscribe, self.is_admin, self.policy, self.max_subscriptions
        )


class Tokens:
    """The tokens in one file, as they are now."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: tuple[int, int, int] | None = None
        self._known: dict[str, Token] = {}

    def add(self, name: str, **fields: object) -> str:
        """Make a token and return it: this is the only time that it is shown."""
        known = self.all()
        if not _is_name(name):
            raise RefusedError(400, f"a token's name is printable, has no colon and is not {LOCAL!r}, got {name!r}")
        if any(one.name == name for one in known):
            raise RefusedError(409, f"there is a token {name!r} already; revoke it first or choose another name")
        secret = "tamis_" + secrets.token_urlsafe(32)
        described = {"name": name, "sha256": _digest(secret), "created": time.time(), **fields}
        self._write([*known, msgspec.convert(described, Token)])
        return secret

    def revoke(self, name: str) -> bool:
        """Remove a token; returns whether there was one."""
        known = self.all()
        kept = [one for one in known if one.name != name]
        if len(kept) < len(known):
            self._write(kept)
        return len(kept) < len(known)

    def all(self) -> list[Token]:
        """Return all tokens, expired ones included."""
        self._look()
        return list(self._known.values())

    def find(self, secret: str) -> Token | None:
        """Return the live token that a secret belongs to."""
        self._look()
        digest = _digest(secret)
        found = next((one for one in self._known.values() if hmac.compare_digest(one.sha256, digest)), None)
        return found if found is not None and self._is_live(found) else None

    def is_live(self, name: str) -> bool:
        """Whether a token that was good earlier is good still."""
        self._look()
        found = next((one for one in self._known.values() if one.name == name), None)
        return found is not None and self._is_live(found)

    def _is_live(self, token: Token) -> bool:
        return token.expires is None or token.expires > time.time()

    def _look(self) -> None:
        try:
            found = self.path.stat()
        except FileNotFoundError:
            self._seen, self._known = None, {}
            return
        seen = (found.st_mtime_ns, found.st_size, found.st_ino)
        if seen != self._seen:
            try:
                tokens = msgspec.json.decode(self.path.read_bytes(), type=list[Token])
            except msgspec.DecodeError as error:
                raise StoreError(str(self.path), f"not a file of tokens: {error}") from None
            if bad := [one.name for one in tokens if not _is_name(one.name)]:
                raise StoreError(str(self.path), f"{bad[0]!r} cannot be the name of a token")
            self._seen, self._known = seen, {one.sha256: one for one in tokens}

    def _write(self, tokens: list[Token]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        draft = self.path.with_suffix(f".{os.getpid()}")
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(tokens)))
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, self.path)


def _is_name(name: str) -> bool:
    """Whether a token may be called so: links are named after principals, with colons between the parts."""
    return bool(name) and name.isprintable() and ":" not in name and name != LOCAL


def tokens_of(config: BrokerConfig) -> Tokens:
    """Return the tokens of a broker."""
    return Tokens(Path(config.data) / "tokens.json")


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
