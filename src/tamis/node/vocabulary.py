"""The messages between nodes of one kind, as bytes: a version, then MessagePack."""

from __future__ import annotations

from typing import Annotated, Any, Final, Generic, TypeAlias, TypeVar

import msgspec

from tamis.errors import RemoteProtocolError

__all__ = ["MAX_COUNT", "Count", "Vocabulary"]

#: The largest number in a message: numbers that are added to it still fit the 64 bits of messages and stores.
MAX_COUNT: Final = 1 << 62

#: A number in a message that counts something: messages, lives, microseconds. Others are refused as they are decoded.
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=MAX_COUNT)]

AnyMessage = TypeVar("AnyMessage")


class Vocabulary(Generic[AnyMessage]):
    """A closed set of messages, ``kinds`` as a union of structs; ``version`` is the first byte of each.

    >>> class Hello(msgspec.Struct, array_like=True, tag=1):
    ...     name: str
    >>> words = Vocabulary[Hello](7, Hello)
    >>> words.encode(Hello("bob"))[0], words.decode(words.encode(Hello("bob")), "east")
    (7, Hello(name='bob'))
    """

    def __init__(self, version: int, kinds: Any) -> None:
        self._version = bytes((version,))
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(kinds)

    def encode(self, message: AnyMessage) -> bytes:
        """Return the bytes of a message."""
        return self._version + self._encoder.encode(message)

    def decode(self, data: bytes, link: str) -> AnyMessage:
        """Return a message that came over ``link``; raise `RemoteProtocolError` for other bytes."""
        if data[:1] != self._version:
            raise RemoteProtocolError(link, f"expected a message of version {self._version[0]}, got {data[:8]!r}")
        try:
            message: AnyMessage = self._decoder.decode(memoryview(data)[1:])
        except Exception as error:  # whatever the parser raises, the sender is at fault
            raise RemoteProtocolError(link, f"not a message: {error}") from None
        return message
