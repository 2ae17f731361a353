"""Options of the format ``tamis`` that its source and its sink share."""

from __future__ import annotations

from collections.abc import Mapping

from tamis.errors import ModelError
from tamis.model.subscription import DEFAULT_NAMESPACE
from tamis.runtime.client.http_calls import HttpCalls

__all__ = ["calls_of", "whole_number"]


def calls_of(options: Mapping[str, str]) -> HttpCalls:
    """Return how to reach the broker: options ``url``, ``token``, ``namespace``, ``timeout`` and ``insecure``."""
    url = options.get("url", "")  # with standbys: several, with commas between
    if not url.startswith(("http://", "https://")):
        raise ModelError(f"option url: expected a broker's http://host:port, got {url!r}")
    namespace = options.get("namespace", DEFAULT_NAMESPACE)
    insecure = options.get("insecure", "false").lower()
    if insecure not in ("true", "false"):
        raise ModelError(f"option insecure: expected true or false, got {insecure!r}")
    patience = float(whole_number(options, "timeout", 60))
    return HttpCalls(url, options.get("token", ""), namespace, patience, insecure == "true")


def whole_number(options: Mapping[str, str], name: str, default: int) -> int:
    """Return an option that is a whole number above 0; `ModelError` names it when it is none."""
    text = options.get(name, str(default))
    if not (text.isascii() and text.isdecimal() and 0 < len(text) < 12 and int(text) > 0):
        raise ModelError(f"option {name}: expected a whole number above 0, got {text!r}")
    return int(text)
