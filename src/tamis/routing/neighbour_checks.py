"""Checks what a neighbour sends before anything of it is applied: which messages, and how large everything in them is.

A link has its own token, but the broker behind it may be broken, or taken over. Numbers are bounded as a message is
decoded (`tamis.node.vocabulary.Count`). Here are the kinds of messages, names and texts, and the size of the table that
a neighbour may announce. What breaks a rule raises `RemoteProtocolError`: the link is cut, the log names the neighbour
and the reason, and nothing of the message is applied or persisted.
"""

from __future__ import annotations

from typing import Any, Final

from tamis.errors import RemoteProtocolError
from tamis.node.effects import Link
from tamis.routing import messages as m
from tamis.routing.core.interest import Interests
from tamis.routing.edge.limits import (
    MAX_BODY,
    MAX_BYTES_OF_SUBSCRIPTIONS,
    MAX_ENTRIES_OF_NEIGHBOUR,
    MAX_EVENT_WITH_REGION,
    MAX_NAME,
    MAX_NAMESPACES_OF_NEIGHBOUR,
    MAX_PART_ENTRIES,
)

__all__ = ["check_message", "check_table"]

#: What a broker may send to another; `Reach` has no number, so it never comes here.
OF_NEIGHBOURS: Final = (
    m.Update,
    m.TablePart,
    m.PartTaken,
    m.Confirm,
    m.Pause,
    m.Resume,
    m.Publish,
    m.PublishBatch,
    m.LinkGap,
)

#: Characters of the key of an entry and of a publisher: those that brokers make have at most three names in them, and
#: JSON writes a character as up to six.
MAX_KEY: Final = 24 * MAX_NAME


def check_message(message: Any, sender: Link, name: str) -> None:
    """Raise `RemoteProtocolError` unless a neighbour may send this message to the broker ``name``."""
    if isinstance(message, m.Publish):
        _check_event(message.event, sender, name)
    elif isinstance(message, m.PublishBatch):
        for event in message.events:
            _check_event(event, sender, name)
    elif isinstance(message, m.Update | m.TablePart):
        _check_update(message, sender)
    elif isinstance(message, m.LinkGap):
        _check_namespace(message.namespace, sender)
        _check("characters of a publisher", len(message.first.publisher), MAX_KEY, sender)
        if not message.count:
            raise RemoteProtocolError(sender, "a gap of no events")
    elif not isinstance(message, OF_NEIGHBOURS):
        raise RemoteProtocolError(sender, f"a broker may not send {type(message).__name__} to another")


def check_table(message: m.Update | m.TablePart, interests: Interests, sender: Link) -> None:
    """Raise `RemoteProtocolError` if an update makes the table of a neighbour larger than a broker keeps.

    ``interests`` are those of the neighbour before the update.
    """
    is_whole = isinstance(message, m.Update) and message.replace
    n, size = (0, 0) if is_whole else (len(interests), interests.bytes)
    for entry in message.announce:
        former = None if is_whole else interests.get(entry.key)
        n += former is None
        size += len(entry.filter) - (0 if former is None else len(former.document))
    _check("entries in all", n, MAX_ENTRIES_OF_NEIGHBOUR, sender)
    former_names = () if is_whole else interests.namespaces
    names = {entry.namespace for entry in message.announce if entry.namespace not in former_names}
    _check("namespaces in all", len(former_names) + len(names), MAX_NAMESPACES_OF_NEIGHBOUR, sender)
    _check("bytes of filters in all", size, MAX_BYTES_OF_SUBSCRIPTIONS, sender)


def _check_event(event: m.Published, sender: Link, name: str) -> None:
    if event.id.publisher.endswith(
        f"@{name}"
    ):  # readers would take it for one of that publisher, and skip those before
        raise RemoteProtocolError(sender, f"an event of {event.id.publisher[:MAX_NAME]!r}, a client of this broker")
    _check_namespace(event.namespace, sender)
    _check("characters of a publisher", len(event.id.publisher), MAX_KEY, sender)
    _check("bytes of an event", len(event.payload), MAX_EVENT_WITH_REGION, sender)


def _check_update(message: m.Update | m.TablePart, sender: Link) -> None:
    if isinstance(message, m.TablePart):
        _check("entries of a part of a table", len(message.announce), MAX_PART_ENTRIES, sender)
        _check("retracted keys of a part of a table", len(message.retract), MAX_PART_ENTRIES, sender)
        _check("bytes of a part of a table", sum(len(entry.filter) for entry in message.announce), MAX_BODY, sender)
    for entry in message.announce:
        _check_namespace(entry.namespace, sender)
        if not entry.key:
            raise RemoteProtocolError(sender, "an entry without a key")
        _check("characters of the key of an entry", len(entry.key), MAX_KEY, sender)
        _check("bytes of a filter", len(entry.filter), MAX_BODY, sender)
    for part in message.ranges:
        _check_namespace(part.namespace, sender)
    keys = {entry.key for entry in message.announce}
    if len(keys) < len(message.announce):
        raise RemoteProtocolError(sender, "an update announces a key twice")


def _check_namespace(name: str, sender: Link) -> None:
    if not 0 < len(name) <= MAX_NAME or not name.isprintable():
        raise RemoteProtocolError(sender, f"a namespace is 1 to {MAX_NAME} printable characters, got {name[:40]!r}")


def _check(what: str, amount: int, most: int, sender: Link) -> None:
    if amount > most:
        raise RemoteProtocolError(sender, f"{what}: {amount:,} is more than the {most:,} accepted")
