"""What a broker notes in its audit about itself: that it started and stopped, and which tokens there are.

Tokens are made and revoked in a file, by a command of its own, whether the broker runs or not. So the broker compares
the file with what it saw last, at its start and while it runs.
"""

from __future__ import annotations

import asyncio
import logging
import time

from tamis import __version__
from tamis.errors import StoreError
from tamis.node.records import TokenFile
from tamis.routing.edge.audit import Deed, TokensSeen
from tamis.runtime.broker.config import BrokerConfig
from tamis.runtime.broker.driver import Driver
from tamis.runtime.broker.tokens import Tokens

__all__ = ["follow_tokens", "note_start", "note_stop", "note_tokens", "watch_tokens"]

#: Seconds between two looks at the tokens.
LOOK_SECONDS = 2.0

_log = logging.getLogger("tamis")


def note_start(driver: Driver, config: BrokerConfig) -> None:
    """Note that the broker starts, and how it is set up."""
    facts = {
        "version": __version__,
        "host": config.host,
        "port": config.port,
        "tls": bool(config.tls_certificate),
        "tokens": config.require_tokens,
        "links": ",".join(driver.links.all) or "none",
        "tenants": ",".join(tenant.namespace for tenant in config.tenants) or "none",
    }
    _note(driver, "start", " ".join(f"{name}={value}" for name, value in facts.items()))


def note_stop(driver: Driver) -> None:
    """Note that the broker stops on request; a broker that failed writes nothing more."""
    if driver.failed is None or not driver.failed.done():
        _note(driver, "stop")


def note_tokens(driver: Driver, tokens: Tokens, file: bytes = b"") -> asyncio.Future[None]:
    """Note which tokens were made and revoked since the last look; ``file`` is kept for a standby."""
    return driver.note(TokensSeen(frozenset((token.name, token.sha256[:16]) for token in tokens.all()), file))


def follow_tokens(driver: Driver, tokens: Tokens) -> None:
    """Adopt the tokens of the broker that had this store before, so that they need not be copied by hand."""
    kept = _token_file(driver)
    if tokens.follow(kept.version, kept.tokens):
        detail = "changes made here while another broker served were put aside in tokens.json.replaced; make them again"
        _log.warning("%s: %s", tokens.path, detail)
        _note(driver, "token file", detail)


async def watch_tokens(driver: Driver, tokens: Tokens, *, is_shared: bool = False) -> None:
    """Note changes of the tokens while the broker runs; with ``is_shared`` the store has a copy for standbys."""
    reported = ""
    while True:
        try:
            problem = tokens.problem
            file = tokens.as_json() if is_shared and not problem else b""
            await note_tokens(driver, tokens, file)
            if file:
                tokens.mark(_token_file(driver).version, file)
            problem = tokens.problem
        except StoreError as error:  # the file was never readable: no token is valid
            problem = str(error)
        if problem and problem != reported:
            _log.warning("%s; the tokens that were valid before stay valid", problem)
            _note(driver, "token file", problem[:200])
        reported = problem
        await asyncio.sleep(LOOK_SECONDS)


def _token_file(driver: Driver) -> TokenFile:
    """Return the tokens that the store keeps for a standby."""
    return driver.machine.node.core.trail.token_file


def _note(driver: Driver, what: str, detail: str = "") -> None:
    name = driver.view.name
    driver.note(Deed(round(time.time() * 1e6), name, what, name, detail=detail))
