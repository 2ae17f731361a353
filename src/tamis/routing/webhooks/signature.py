"""Signs the requests of a webhook: HMAC-SHA256 over id, moment and body.

The headers are those of Standard Webhooks, so that its libraries can verify them. While keys are rotated a request has
one signature per key.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Iterable

from tamis.errors import ModelError

__all__ = ["LEAST_KEY", "MOST_KEY", "key_as_text", "read_key", "signatures"]

#: Bytes of a key.
LEAST_KEY, MOST_KEY = 24, 64

_PREFIX = "whsec_"


def read_key(text: str) -> bytes:
    """Return the bytes of a key that is written as ``whsec_`` and base64; the error does not show the key.

    >>> read_key("whsec_" + "A" * 32) == bytes(24)
    True
    """
    problem = f"secret: expected {_PREFIX} and the base64 of {LEAST_KEY} to {MOST_KEY} random bytes"
    if not text.startswith(_PREFIX):
        raise ModelError(problem)
    try:
        key = base64.b64decode(text.removeprefix(_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        raise ModelError(problem) from None
    if not LEAST_KEY <= len(key) <= MOST_KEY:
        raise ModelError(f"{problem}, got {len(key)} bytes")
    return key


def key_as_text(key: bytes) -> str:
    """Return a key as `read_key` reads it.

    >>> key_as_text(bytes(24))
    'whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA'
    """
    return _PREFIX + base64.b64encode(key).decode()


def signatures(keys: Iterable[bytes], id: str, seconds: int, body: bytes) -> str:
    """Return the header ``webhook-signature``: a signature for each key, with spaces between them."""
    signed = f"{id}.{seconds}.".encode() + body
    return " ".join(f"v1,{base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()}" for key in keys)
