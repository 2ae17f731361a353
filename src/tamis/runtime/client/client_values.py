"""Events as a client sends them: what Python holds, as MessagePack; the broker makes canonical values of it."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import msgspec

from tamis.errors import EventError
from tamis.model.types.registry import wire_value
from tamis.routing.edge.admission import DECIMAL

__all__ = ["encode_event"]


def encode_event(raw: Mapping[str, Any]) -> bytes:
    """Return an event as bytes; `EventError` when a value has no form on the wire.

    >>> import numpy as np
    >>> msgspec.msgpack.decode(encode_event({"mag": np.float64(6.5)}))
    {'mag': 6.5}
    """
    if not isinstance(raw, Mapping):
        raise EventError("", raw, "an event must be a mapping from attribute to value")
    values = raw if isinstance(raw, dict) else dict(raw)
    if any(isinstance(value, Decimal) for value in values.values()):
        values = {name: _with_decimals(value) for name, value in values.items()}
    try:
        return _encoder.encode(values)
    except RecursionError:
        raise EventError("", "...", "cannot be sent: nested too deep") from None
    except (TypeError, OverflowError, msgspec.EncodeError) as error:
        raise EventError("", raw, f"cannot be sent: {error}") from None


def _with_decimals(value: Any) -> Any:
    """Return a decimal as the extension of MessagePack that the broker reads exactly; anything else as it is."""
    return msgspec.msgpack.Ext(DECIMAL, str(value).encode()) if isinstance(value, Decimal) else value


_encoder = msgspec.msgpack.Encoder(enc_hook=wire_value)
