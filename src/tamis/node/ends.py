"""The streams of a node by link. A stream on which nothing was ever sent is a name until it is needed.

A broker with a million subscriptions that nobody reads yet has a million links. Each costs an entry in a set instead of
a stream, its queue and a record on disk.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from tamis.node.effects import Link
from tamis.node.stream import CLIENT_EPOCH, StreamEnd

__all__ = ["Ends"]


class Ends(dict[Link, StreamEnd]):
    """``{link: stream}``; a link that is *resting* gets its stream when it is looked up.

    Iterating over items and values passes over resting links: nothing waits there.

    >>> ends = Ends()
    >>> ends.rest(["s:default:7"], epoch=3)
    >>> len(ends), "s:default:7" in ends, ends["s:default:7"].mark, len(ends)
    (0, True, Mark(peer_epoch=1, received=0, sent=0, epoch=3), 1)
    """

    def __init__(self) -> None:
        super().__init__()
        #: ``{link: life of this node}`` of the links whose other ends speak through this process and were sent nothing.
        self._resting: dict[Link, int] = {}

    def rest(self, links: Iterable[Link], *, epoch: int) -> None:
        """Have links whose other ends speak through this process, where there are none yet."""
        resting = self._resting
        for link in links:
            if not dict.__contains__(self, link):
                resting.setdefault(link, epoch)

    def __missing__(self, link: Link) -> StreamEnd:
        end = self[link] = StreamEnd(link, self._resting.pop(link))
        end.peer_epoch = CLIENT_EPOCH
        return end

    def __contains__(self, link: object) -> bool:
        return dict.__contains__(self, link) or link in self._resting

    def get(self, link: Link, default: Any = None) -> Any:
        """Return the stream of a link, or the default when there is no such link."""
        try:
            return self[link]
        except KeyError:
            return default

    def pop(self, link: Link, default: Any = None) -> Any:
        """Remove a link; returns its stream, or the default when it was resting or is not there."""
        self._resting.pop(link, None)
        return super().pop(link, default)

    def links(self) -> Iterator[Link]:
        """Yield all links, the resting ones included."""
        return chain(self, self._resting)
