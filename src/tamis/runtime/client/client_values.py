"""Events as a client sends them: what Python holds, as MessagePack; the broker makes canonical values of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
import shapely

from tamis.errors import EventError

__all__ = ["encode_event"]


def encode_event(raw: Mapping[str, Any]) -> bytes:
    """Return an event as bytes; `EventError` when a value has no form on the wire.

    >>> msgspec.msgpack.decode(encode_event({"mag": np.float64(6.5)}))
    {'mag': 6.5}
    """
    if not isinstance(raw, Mapping):
        raise EventError("", raw, "an event is a mapping from attribute to value")
    try:
        return _encoder.encode(raw if isinstance(raw, dict) else dict(raw))
    except RecursionError:
        raise EventError("", "...", "cannot be sent: nested too deep") from None
    except (TypeError, OverflowError, msgspec.EncodeError) as error:
        raise EventError("", raw, f"cannot be sent: {error}") from None


def _plain(value: Any) -> Any:
    if isinstance(value, shapely.Geometry):
        return shapely.to_wkb(value)
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a {type(value).__name__} has no form on the wire")


_encoder = msgspec.msgpack.Encoder(enc_hook=_plain)
