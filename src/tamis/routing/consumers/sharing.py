"""Shared queues: which consumer holds which message, how often each was taken, and which are settled out of order.

A stream is acknowledged from its beginning. Consumers settle messages in any order, so settled messages after the first
open one are noted here, one record per message, until the stream can be acknowledged up to them. A message is *held* by
a consumer until a moment; after that, any consumer may take it. Holds and counts are on disk before a consumer receives
a message, so that neither a restart nor a take-over forgets them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tamis.node import records
from tamis.node.effects import Answer, Effect, Key, Link, Send
from tamis.node.records import Hold
from tamis.node.stream import StreamEnd
from tamis.routing import messages as m
from tamis.routing.consumers.requests import Bury, Drop, Fail, Replay, Request, Settle, Settled, Take, Taken

__all__ = ["MAX_DEAD_LETTERS", "WINDOW", "Sharing"]

#: Messages behind the first open one that consumers may hold or have settled.
WINDOW = 4_096

#: Dead letters of one queue; beyond them the oldest are dropped.
MAX_DEAD_LETTERS = 10_000


class Sharing:
    """The holds of all queues; ``ends`` are the streams, which the node keeps and this class only reads."""

    def __init__(self, ends: Mapping[Link, StreamEnd]) -> None:
        self._ends = ends
        #: ``{link: {number: hold}}`` of messages behind what is acknowledged.
        self._holds: dict[Link, dict[int, Hold]] = {}

    def restore(self, stored: Mapping[Key, bytes]) -> None:
        """Restore what an earlier life persisted."""
        for (link, number), hold in records.HELD.items(stored):
            self._holds.setdefault(link, {})[int(number)] = hold

    def first_open(self, link: Link) -> int:
        """Return the number of the first message that is neither acknowledged nor settled; it may not exist yet."""
        number = self._waiting(link).start
        while self.is_settled(link, number):
            number += 1
        return number

    def has_failed(self, link: Link) -> bool:
        """Whether a reader has failed on the first open message of a queue."""
        holds = self._holds.get(link)
        return bool(holds and holds.get(self.first_open(link), Hold()).deliveries)

    def is_settled(self, link: Link, number: int) -> bool:
        """Whether a message that is not acknowledged was settled out of order."""
        hold = self._holds.get(link, {}).get(number)
        return hold is not None and hold.is_done

    def forget(self, link: Link) -> list[Effect]:
        """Drop everything about a queue that has gone."""
        return [records.HELD.drop(link, str(number)) for number in self._holds.pop(link, {})]

    def handle(self, request: Request, now: float) -> list[Effect]:
        """Handle one request; return all its effects, as one transaction."""
        if isinstance(request, Take):
            return self.take(request, now)
        if isinstance(request, Settle):
            return self.settle(request)
        if isinstance(request, Fail):
            return self.fail(request, now)
        if isinstance(request, Bury):
            return self.bury(request, now)
        return self.replay(request) if isinstance(request, Replay) else self.drop(request)

    def take(self, request: Take, now: float) -> list[Effect]:
        """Give messages to a consumer, the oldest first; to a repeated request those that it got before."""
        link, moment = request.link, round(now * 1e6)
        effects, holds = self._trim(link), self._holds.setdefault(link, {})
        taken, worn = dict[int, int](), list[int]()
        taken_bytes, worn_bytes = 0, 0
        until = moment + round(request.seconds * 1e6)
        for number in self._taken_by(request):
            holds[number] = holds[number]._replace(until=until)
            taken[number] = holds[number].deliveries
            effects.append(records.HELD.put(link, str(number), value=holds[number]))
        if taken:
            return [*effects, Answer(Taken(taken))]
        for number in self._open(link):
            hold = holds.get(number, Hold())
            if hold.is_done or hold.until > moment:
                continue
            size = self._ends[link].outbox.size_of(number)
            if request.most and hold.deliveries >= request.most:
                if not worn or worn_bytes + size <= request.max_bytes:  # the others are found again by the next request
                    worn.append(number)
                    worn_bytes += size
                continue
            taken_bytes += size
            if len(taken) == request.limit or (taken and taken_bytes > request.max_bytes):
                break
            taken[number] = hold.deliveries + 1
            holds[number] = Hold(hold.deliveries + 1, request.consumer, until, request=request.id)
            effects.append(records.HELD.put(link, str(number), value=holds[number]))
        return [*effects, Answer(Taken(taken, tuple(worn)))]

    def settle(self, request: Settle) -> list[Effect]:
        """Settle messages of a consumer, and release those that it gives back."""
        link, effects = request.link, self._trim(request.link)
        holds = self._holds.setdefault(link, {})
        late: list[int] = []
        done: list[int] = []
        for number in dict.fromkeys((*request.done, *request.released)):
            hold = holds.get(number)
            if hold is None or hold.is_done or hold.consumer != request.consumer:
                late.append(number)
            elif number in request.done:
                done.append(number)
            else:
                holds[number] = Hold(hold.deliveries, "", 0)
                effects.append(records.HELD.put(link, str(number), value=holds[number]))
        finished, floor = self._finish(link, done)
        count = len(dict.fromkeys((*request.done, *request.released))) - len(late)
        return [*effects, *finished, Answer(Settled(count, tuple(late), floor))]

    def fail(self, request: Fail, now: float) -> list[Effect]:
        """Count deliveries without an acknowledgement; messages that a consumer holds are not counted here.

        A settled message is returned as worn out, too: its reader must not try it again.
        """
        link, moment, worn = request.link, round(now * 1e6), list[int]()
        effects, holds, waiting = self._trim(link), self._holds.setdefault(link, {}), self._waiting(link)
        for number in request.numbers:
            hold = holds.get(number, Hold())
            if number in waiting and hold.is_done:
                worn.append(number)
            if number not in waiting or hold.is_done or hold.until > moment:
                continue
            deliveries = hold.deliveries + 1
            if request.is_sure and deliveries >= request.most:
                worn.append(number)
            elif not request.is_sure:
                deliveries = max(1, hold.deliveries, min(deliveries, request.most - 1))
            holds[number] = Hold(deliveries)
            effects.append(records.HELD.put(link, str(number), value=holds[number]))
        return [*effects, Answer(Taken({}, tuple(worn)))]

    def bury(self, request: Bury, now: float) -> list[Effect]:
        """Move worn-out messages to the dead letters; one that was settled or taken meanwhile stays."""
        holds, moment = self._holds.get(request.link, {}), round(now * 1e6)
        letters = [(number, body) for number, body in request.letters if _is_worn(holds.get(number), request, moment)]
        messages = [m.decode(body, request.link) for _, body in letters]
        moved: list[Effect] = [Send(request.dead, message) for message in messages if isinstance(message, m.Delivery)]
        waiting = self._waiting(request.dead)
        excess = waiting[: max(0, len(waiting) + len(moved) - MAX_DEAD_LETTERS)]
        dropped, beginning = self._finish(request.dead, excess)
        finished, floor = self._finish(request.link, [number for number, _ in letters])
        return [*moved, *dropped, *finished, Answer(Settled(len(letters), floors=beginning | floor))]

    def replay(self, request: Replay) -> list[Effect]:
        """Move dead letters to the end of their queue, each once."""
        present = self._waiting(request.dead)
        letters = [
            (number, body)
            for number, body in request.letters
            if number in present and not self.is_settled(request.dead, number) and request.link in self._ends
        ]
        moved: list[Effect] = [Send(request.link, m.decode(body, request.dead)) for _, body in letters]
        finished, floor = self._finish(request.dead, [number for number, _ in letters])
        return [*moved, *finished, Answer(Settled(len(letters), floors=floor))]

    def drop(self, request: Drop) -> list[Effect]:
        """Delete dead letters."""
        present = self._waiting(request.dead)
        numbers = [
            number for number in request.numbers if number in present and not self.is_settled(request.dead, number)
        ]
        finished, floor = self._finish(request.dead, numbers)
        return [*finished, Answer(Settled(len(numbers), floors=floor))]

    # Inside

    def _open(self, link: Link) -> range:
        """Return the numbers that are not acknowledged and that consumers may take."""
        return self._waiting(link)[:WINDOW]

    def _taken_by(self, request: Take) -> list[int]:
        """Return the messages that an earlier request with the same id took, and that no other has taken since."""
        if not request.id:
            return []
        holds, owner = self._holds[request.link], (request.consumer, request.id)
        return sorted(number for number, hold in holds.items() if (hold.consumer, hold.request) == owner)

    def _waiting(self, link: Link) -> range:
        """Return the numbers that are not acknowledged."""
        if link not in self._ends:  # a queue may go while a consumer waits
            return range(0)
        end = self._ends[link]
        return range(end.acknowledged + 1, end.sent + 1)

    def _trim(self, link: Link) -> list[Effect]:
        """Drop the holds of messages that were acknowledged with the stream meanwhile, as by `POST .../acknowledge`."""
        holds, floor = self._holds.get(link, {}), self._waiting(link).start - 1
        acknowledged = [number for number in holds if number <= floor]
        for number in acknowledged:
            del holds[number]
        return [records.HELD.drop(link, str(number)) for number in acknowledged]

    def _finish(self, link: Link, numbers: Iterable[int]) -> tuple[list[Effect], dict[Link, int]]:
        """Settle messages; return what to persist, and the number up to which the stream may be acknowledged."""
        holds, floor = self._holds.setdefault(link, {}), self._waiting(link).start - 1
        effects: list[Effect] = []
        for number in numbers:
            holds[number] = Hold(holds.get(number, Hold()).deliveries, "", 0, True)
            effects.append(records.HELD.put(link, str(number), value=holds[number]))
        start = floor
        while (hold := holds.get(floor + 1)) is not None and hold.is_done:
            floor += 1
            del holds[floor]
            effects.append(records.HELD.drop(link, str(floor)))
        return effects, {link: floor} if floor > start else {}


def _is_worn(hold: Hold | None, request: Bury, moment: int) -> bool:
    return hold is not None and not hold.is_done and hold.until <= moment and hold.deliveries >= request.most
