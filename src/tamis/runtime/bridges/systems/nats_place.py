"""Where a NATS server is, and which of its streams a bridge reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from tamis.errors import ModelError
from tamis.runtime.bridges.systems.addresses import read_address

__all__ = ["NatsPlace", "check_subject"]


def check_subject(subject: str) -> None:
    """Raise `ModelError` unless a text is a subject of NATS, perhaps with wildcards.

    >>> check_subject("sensors.*.state")
    >>> check_subject("sensors.>.state")
    Traceback (most recent call last):
        ...
    tamis.errors.ModelError: --in 'sensors.>.state': > is allowed at the end only, behind a dot
    """
    words = subject.split(".")
    problem = ""
    if not all(words) or any(letter.isspace() or not letter.isprintable() for letter in subject):
        problem = "expected words with a dot between them, without spaces"
    elif ">" in words[:-1]:
        problem = "> is allowed at the end only, behind a dot"
    if problem:
        raise ModelError(f"--in {subject[:80]!r}: {problem}")


@dataclass(frozen=True)
class NatsPlace:
    """Servers of one cluster, and who connects."""

    #: Where a user name's password is looked for: a command line is not a place for one.
    PASSWORD_VARIABLE: ClassVar[str] = "TAMIS_NATS_PASSWORD"

    servers: tuple[str, ...]
    #: The stream to read; "" finds the stream of each subject.
    stream: str = ""
    user: str = ""
    credentials: str = ""
    #: Whether a bridge that the broker does not know begins with all that the stream has, or with what comes next.
    from_beginning: bool = True

    @classmethod
    def parse(
        cls, urls: Sequence[str], *, stream: str = "", credentials: str = "", from_beginning: bool = True
    ) -> NatsPlace:
        """Read URLs; `ModelError` says which is none.

        >>> NatsPlace.parse(["nats://alice@127.0.0.1"])
        NatsPlace(servers=('nats://127.0.0.1:4222',), stream='', user='alice', credentials='', from_beginning=True)
        """
        servers, user = [], ""
        for url in urls:
            address = read_address(url, {"nats": 4222, "tls": 4222}, cls.PASSWORD_VARIABLE)
            host = f"[{address.host}]" if ":" in address.host else address.host
            servers.append(f"{address.scheme}://{host}:{address.port}")
            user = address.user or user
        return cls(tuple(servers), stream, user, credentials, from_beginning)

    @property
    def shown(self) -> str:
        """The servers, for people."""
        return ", ".join(self.servers)
