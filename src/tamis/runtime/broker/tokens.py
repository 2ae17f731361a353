"""Tokens: who may speak to a broker, and what they may do.

A token is 256 random bits, shown once when it is made. The file holds its SHA-256 and nothing that could be used
(promise S2). A running broker reads the file again whenever it changes, so that adding and revoking need no
restart, and connections that were opened with a revoked token are cut within seconds (S4). A file that cannot be read
leaves the last valid state in force: a slip of an editor must neither lock all clients out nor stop revocation.

Two commands that change the file at the same time take turns: each holds a lock on the directory from reading to
renaming, and the directory is flushed, so that a revocation survives a power cut.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import secrets
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from tamis.errors import RefusedError, StoreError
from tamis.routing.edge.limits import MAX_SUBSCRIPTIONS
from tamis.routing.edge.rights import Rights
from tamis.runtime.broker.config import BrokerConfig

__all__ = ["LOCAL", "Token", "Tokens", "jti_digest", "tokens_of"]


#: The principal of every client on this machine, where no tokens are required.
LOCAL = "local"


class Token(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One token in the file; ``broker`` is the name of the broker that links with it, if it is for a link."""

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
    #: The SHA-256 of a JWT, or of its ``jti`` behind ``jti-``: a revocation of a token of another issuer.
    revokes: str = ""

    def rights(self) -> Rights:
        """Return what its holder may do."""
        names = None if self.namespaces is None else frozenset(self.namespaces)
        return Rights(
            self.name,
            names,
            self.may_publish,
            self.may_subscribe,
            self.is_admin,
            self.policy,
            self.max_subscriptions,
            digest=self.sha256,
        )


class _Mark(msgspec.Struct, frozen=True):
    """Which version of the store's copy a file of tokens is, and the SHA-256 of that."""

    version: int = 0
    sha256: str = ""


class Tokens:
    """The tokens in one file, as they are now."""

    def __init__(self, path: Path) -> None:
        self.path = path
        #: Why the file as it is now cannot be read, "" when it can; until then the last valid state is in force.
        self.problem = ""
        #: The stamp of the file when it was read last; None: it must be read again.
        self._read_stamp: tuple[int, int, int] | None = None
        self._by_digest: dict[str, Token] | None = None
        self._revoked: frozenset[str] = frozenset()

    def add(self, name: str, **fields: object) -> str:
        """Make a token and return it: this is the only time that it is shown."""
        if not _is_name(name):
            raise RefusedError(400, f"a token's name is printable, has no colon and is not {LOCAL!r}, got {name!r}")
        secret = "tamis_" + secrets.token_urlsafe(32)
        described = {"name": name, "sha256": _digest(secret), "created": time.time(), **fields}
        token = _checked(msgspec.convert(described, Token))
        with self._locked() as directory:
            tokens = self._read()
            if any(existing.name == name for existing in tokens):
                raise RefusedError(409, f"token {name!r} exists already; revoke it first or choose another name")
            self._write([*tokens, token], directory)
        return secret

    def revoke(self, name: str) -> bool:
        """Remove a token; returns whether there was one."""
        if not self.path.exists():
            return False
        with self._locked() as directory:
            tokens = self._read()
            kept = [token for token in tokens if token.name != name or token.revokes]
            if len(kept) < len(tokens):
                self._write(kept, directory)
        return len(kept) < len(tokens)

    def revoke_foreign(self, name: str, digest: str) -> None:
        """Revoke a JWT by its SHA-256, or by ``jti-`` and the SHA-256 of its ``jti``; ``name`` is for people."""
        with self._locked() as directory:
            tokens = self._read()
            if not any(token.revokes == digest for token in tokens):
                self._write([*tokens, Token(name, "", time.time(), revokes=digest)], directory)

    def revoked(self) -> frozenset[str]:
        """Return the digests of the tokens of other issuers that were revoked."""
        self._look()
        return self._revoked

    def all(self) -> list[Token]:
        """Return all tokens, expired ones included."""
        return list(self._look().values())

    def find(self, secret: str) -> Token | None:
        """Return the live token that a secret belongs to."""
        digest = _digest(secret)
        token = next((token for token in self._look().values() if hmac.compare_digest(token.sha256, digest)), None)
        return token if token is not None and self._is_live(token) else None

    def is_live(self, digest: str) -> bool:
        """Whether the token with this SHA-256 is still valid; a new token of the same name is another one."""
        token = self._look().get(digest)
        return token is not None and self._is_live(token)

    def _is_live(self, token: Token) -> bool:
        return token.expires is None or token.expires > time.time()

    def _look(self) -> dict[str, Token]:
        """Return the tokens by digest; the last valid state while the file cannot be read, `StoreError` without one."""
        try:
            stamp = self._stamp()
            if stamp != self._read_stamp or self._by_digest is None:
                self._take(self._read())
                self._read_stamp, self.problem = stamp, ""
        except FileNotFoundError:
            self._take([])
            self._read_stamp, self.problem = None, ""
        except StoreError as error:
            if self._by_digest is None:
                raise
            self._read_stamp, self.problem = None, str(error)
        return self._by_digest or {}

    def _take(self, tokens: list[Token]) -> None:
        self._by_digest = {token.sha256: token for token in tokens if not token.revokes}
        self._revoked = frozenset(token.revokes for token in tokens if token.revokes)

    def _stamp(self) -> tuple[int, int, int]:
        """Return the time, size and inode of the file, of which one differs after every change."""
        try:
            status = self.path.stat()
        except FileNotFoundError:
            raise
        except OSError as error:
            raise StoreError(str(self.path), f"not readable: {error.strerror}") from None
        return status.st_mtime_ns, status.st_size, status.st_ino

    def _read(self) -> list[Token]:
        """Return the tokens in the file; `StoreError` when its contents are not a list of tokens."""
        try:
            tokens = msgspec.json.decode(self.path.read_bytes(), type=list[Token])
        except FileNotFoundError:
            return []
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OSError) as error:
            raise StoreError(str(self.path), f"not a file of tokens: {error}") from None
        if bad := [token.name for token in tokens if not _is_name(token.name)]:
            raise StoreError(str(self.path), f"{bad[0]!r} cannot be the name of a token")
        return tokens

    # A copy for standbys

    def as_json(self) -> bytes:
        """Return the whole file in one form, for the store; `StoreError` when it cannot be read."""
        return msgspec.json.encode(self._read())

    def mark(self, version: int, tokens: bytes) -> None:
        """Note beside the file which version of the store's copy it is."""
        mark = _Mark(version, hashlib.sha256(tokens).hexdigest())
        if mark != self._read_mark():
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _replace(self._mark_path, msgspec.json.encode(mark))

    def follow(self, version: int, tokens: bytes) -> bool:
        """Replace this file by the store's copy unless it is that version or comes from it.

        Returns whether changes that were made here, while another broker served, were put aside: they are kept in
        ``tokens.json.replaced``.
        """
        mark = self._read_mark()
        if not version or mark.version == version:
            return False
        with self._locked() as directory:  # a token that is added here meanwhile is put aside, too
            mine = self.as_json() if self.path.exists() else b""
            is_changed = bool(mine) and hashlib.sha256(mine).hexdigest() != mark.sha256 and mine != tokens
            if is_changed:
                _replace(self.path.with_suffix(".json.replaced"), self.path.read_bytes())
            self._write(msgspec.json.decode(tokens, type=list[Token]), directory)
        self.mark(version, tokens)
        return is_changed

    @property
    def _mark_path(self) -> Path:
        return self.path.with_suffix(".version")

    def _read_mark(self) -> _Mark:
        try:
            return msgspec.json.decode(self._mark_path.read_bytes(), type=_Mark)
        except (FileNotFoundError, msgspec.DecodeError, UnicodeDecodeError):
            return _Mark()

    @contextlib.contextmanager
    def _locked(self) -> Iterator[int]:
        """Hold the directory for one change of the file; yields its descriptor."""
        import fcntl

        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        directory = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(directory, fcntl.LOCK_EX)
            yield directory
        finally:
            os.close(directory)

    def _write(self, tokens: list[Token], directory: int) -> None:
        _replace(self.path, msgspec.json.format(msgspec.json.encode(tokens)))
        os.fsync(directory)  # the new name, too: a revoked token must not come back with a power cut


def _replace(path: Path, content: bytes) -> None:
    """Write a file that only this user may read, under a name of its own first: readers see the old one or the new."""
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)  # one that a crash left behind has its mode
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, path)


def _checked(token: Token) -> Token:
    """Return a token; `RefusedError` when it is for a link and has rights that only clients have."""
    if token.broker and (token.is_admin or token.policy or not (token.may_publish and token.may_subscribe)):
        raise RefusedError(400, "a token for a link takes namespaces and an end only: no admin, policy or direction")
    return token


def _is_name(name: str) -> bool:
    """Whether a token may have this name: links are named after principals, with colons between the parts."""
    return bool(name) and name.isprintable() and ":" not in name and name != LOCAL


def jti_digest(jti: str) -> str:
    """Return how the ``jti`` of a JWT is written in the file of tokens."""
    return f"jti-{hashlib.sha256(jti.encode()).hexdigest()}"


def tokens_of(config: BrokerConfig) -> Tokens:
    """Return the tokens of a broker."""
    return Tokens(Path(config.data) / "tokens.json")


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
