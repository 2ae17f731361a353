"""Messages that cross one another: small histories, each of which once lost an event, gave it twice, or never ended."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from tamis import Number, Schema
from tamis.node.content import Content
from tamis.node.effects import Deliver, Send
from tamis.overlay import messages as m
from tamis.overlay.level import Level
from tamis.overlay.peer import PeerCore
from tamis.overlay.protocol import bounds, handlers, repair
from tamis.overlay.seat import Seat, Shape
from tamis.overlay.space import Space
from tamis.overlay.state import GRACE, SeatEvents
from tamis_lab.peers.express import Express

SCHEMA = Schema({"a": Number(0, 1)})
CONTENT, SPACE = Content(SCHEMA), Space(SCHEMA)
BOX = np.array([[0.0], [1.0]])
PAYLOAD = CONTENT.write_event({"a": 0.5})


def new_seat(name: str, *children: str) -> Seat:
    """Return the root of a small tree; what it does not know stays at home."""
    events = SeatEvents(lambda payload: np.array([[0.5], [0.5]]))
    seat = Seat(name, BOX, SPACE, Shape(2, 4), events)
    seat.membership.enter()
    if children:
        names = [name, *children]
        seat.levels = [Level(names, np.repeat(BOX[None], len(names), axis=0))]
    return seat


def hear(seat: Seat, message: m.SeatMessage) -> list[m.SeatMessage]:
    handlers.handle(seat, message)
    return seat.take_mail()


def published(seq: int = 1, floor: int = 1) -> m.PeerEvent:
    return m.PeerEvent(m.EventId("zoe", 1, seq), "default", PAYLOAD, floor)


def coming_down(to: str, attempt: int = 1, *, event: m.PeerEvent | None = None, level: int = 0) -> m.Forward:
    return m.Forward(to, "root/0", 0, event or published(), attempt, level, True, "", f"{level + 1} {to}", 1)


def test_a_farewell_does_not_end_a_later_adoption() -> None:
    """A join that is said twice is adopted twice; between the two the child may have moved on, and come back."""
    parent = new_seat("p/0", "c/0")
    join = m.Insert("p/0", "x/0", 0, "x/0", 0, BOX.tobytes())
    places = [reply.place for _ in range(2) for reply in hear(parent, join) if isinstance(reply, m.Adopted)]
    assert places[0] < places[1]
    hear(parent, m.Detach("p/0", "x/0", 0, "x/0", 0, places[0]))
    assert "x/0" in parent.levels[0]
    hear(parent, m.Detach("p/0", "x/0", 0, "x/0", 0, places[1]))
    assert "x/0" not in parent.levels[0]


def test_a_child_leaves_the_place_it_had() -> None:
    child = new_seat("x/0")
    first, second = (m.Adopted("x/0", name, 0, "x/0", 1, BOX.tobytes(), 7, False, True) for name in ("p/0", "q/0"))
    hear(child, first)
    assert m.Detach("p/0", "x/0", 0, "x/0", 0, 7) in hear(child, second)
    assert child.parent == "q/0"


def test_a_number_of_a_place_is_not_given_twice() -> None:
    """Also by a new owner, who knows only the table."""
    parent = new_seat("p/0", "c/0")
    parent.levels[0].places["c/0"] = 41
    [adopted] = hear(parent, m.Insert("p/0", "x/0", 0, "x/0", 0, BOX.tobytes()))
    assert isinstance(adopted, m.Adopted)
    assert adopted.place == 42


def test_an_earlier_word_that_comes_later_does_not_shrink_an_mbr() -> None:
    """A box that grows by itself, as a broker's does, is told by reports alone; on their way they may be reordered."""
    parent, small = new_seat("p/0", "x/0"), np.array([[0.2], [0.3]])
    early, late = (
        m.MbrReport("p/0", "x/0", 0, 0, box.tobytes(), 0, order) for order, box in ((1, small), (2, BOX.copy()))
    )
    hear(parent, late)
    hear(parent, early)
    assert np.array_equal(parent.levels[0].box("x/0"), BOX)
    hear(parent, m.MbrReport("p/0", "x/0", 0, 0, small.tobytes(), 0, 3))
    assert np.array_equal(parent.levels[0].box("x/0"), small)


def test_a_growth_is_told_again_until_the_root_has_answered() -> None:
    """The parent has told its own MBR before; it cannot know that this word has arrived, so the root is asked."""
    child, parent = new_seat("x/0"), new_seat("p/0", "x/0")
    child.up.name, parent.up.name, parent.up.noted_box = "p/0", "root/0", BOX.copy()
    bounds.change_box(child, BOX)
    for _ in range(2):  # the first is lost, and a round says it again
        repair.check(child, None)
        handlers.settle(child)
        [report] = [mail for mail in child.take_mail() if isinstance(mail, m.MbrReport)]
    assert [(reply.to, reply.origin) for reply in hear(parent, report) if isinstance(reply, m.MbrReport)] == [
        ("root/0", "x/0")
    ]
    assert not child.growth.is_known
    hear(child, m.Grown("x/0", "root/0", 0, report.number))
    assert child.growth.is_known


def test_who_takes_the_place_of_two_has_the_boxes_of_both() -> None:
    parent = new_seat("p/0", "x/0", "y/0")
    parent.levels[0].boxes[2] = 0.5
    hear(parent, m.Replace("p/0", "y/0", 0, "x/0", 0))
    assert parent.levels[0].names == ["p/0", "y/0"]
    assert np.array_equal(parent.levels[0].box("y/0"), BOX)


def test_a_peer_without_contact_begins_a_tree_and_waits_for_others() -> None:
    """Its contact has crashed, and others may have asked the same peer; it cannot know that none has."""
    seat = Seat("x/0", BOX, SPACE, Shape(2, 4))
    seat.membership.seek("gone/0")
    repair.check(seat, "x/0")
    assert seat.placed
    assert seat.losses.doubt == GRACE
    repair.check(seat, "x/0")
    assert seat.losses.doubt == GRACE - 1


def test_what_its_publisher_is_done_with_is_not_delivered_again() -> None:
    """A copy that was on its way for long says what was done when it set out."""
    core = PeerCore("alice", CONTENT, SPACE)
    core.handle(m.SubscribeRequest(0, CONTENT.write_filter(CONTENT.compile("a > 0"))), sender="", now=0.0)
    delivered = []
    for event in (published(1), published(2, floor=2), published(1)):
        forward = coming_down("alice/0", event=event)
        delivered += [effect for effect in core.handle(forward, sender="root", now=0.0) if isinstance(effect, Deliver)]
    assert [effect.message.event.id.seq for effect in delivered] == [1, 2]


def test_an_old_attempt_is_answered_by_its_number() -> None:
    """Else its sender would send it again in every round, for ever."""
    seat = new_seat("x/0")
    hear(seat, coming_down("x/0", attempt=2))
    [receipt] = hear(seat, coming_down("x/0", attempt=1))
    assert receipt == m.Receipt("root/0", "x/0", 0, published().id, 1, "1 x/0", False)


def test_a_late_copy_tells_of_children_that_moved_on() -> None:
    """They moved to where the event had been already, so only another attempt finds them."""
    complete = []
    for again in (False, True):
        parent = new_seat("p/0", "x/0")
        parent.up.name = "root/0"
        hear(parent, m.Detach("p/0", "x/0", 0, "x/0", 0, 0))
        late = msgspec.structs.replace(coming_down("p/0", level=1), again=again)
        complete += [reply.complete for reply in hear(parent, late) if isinstance(reply, m.Receipt)]
    assert complete == [True, False]


def test_two_nodes_in_other_hands_are_answered_one_by_one() -> None:
    seat = new_seat("x/0", "c/0")
    seat.up.name = "p/0"
    lower, upper = (
        [
            reply
            for reply in hear(seat, coming_down("x/0", level=level))
            if isinstance(reply, m.Forward) and reply.to == "p/0"
        ]
        for level in (2, 3)
    )
    tokens = {forward.token for forward in (*lower, *upper)}
    assert len(tokens) == 2
    copy = seat.events.copies.read(published().id)
    assert copy is not None
    hear(seat, m.Receipt("x/0", "p/0", 0, published().id, 1, lower[0].token, True))
    assert upper[0].token in copy.pending


@pytest.mark.parametrize("incomplete", ["c/0", "d/0", None])
def test_an_event_is_complete_when_all_children_say_so(incomplete: str | None) -> None:
    seat = new_seat("x/0", "c/0", "d/0")
    seat.up.name = "root/0"
    forwards = [reply for reply in hear(seat, coming_down("x/0", level=1)) if isinstance(reply, m.Forward)]
    assert [forward.to for forward in forwards] == ["c/0", "d/0"]
    replies: list[m.SeatMessage] = []
    for forward in forwards:
        assert not replies
        replies = hear(
            seat, m.Receipt("x/0", forward.to, 0, published().id, 1, forward.token, forward.to != incomplete)
        )
    assert [reply.complete for reply in replies if isinstance(reply, m.Receipt)] == [incomplete is None]


def test_an_event_in_a_circle_of_parents_ends_and_is_not_complete() -> None:
    left, right = new_seat("l/0"), new_seat("r/0")
    left.up.name, right.up.name = "r/0", "l/0"
    mail: list[m.SeatMessage] = [coming_down("l/0", level=3)]
    answers = []
    for _ in range(20):
        if not mail:
            break
        message = mail.pop(0)
        if message.to == "root/0":
            answers.append(message)
        else:
            mail += hear(left if message.to == "l/0" else right, message)
    assert not mail
    assert [answer.complete for answer in answers if isinstance(answer, m.Receipt)] == [False]


def test_what_has_been_idle_for_long_is_forgotten() -> None:
    express = Express()
    express.add(PeerCore("alice", CONTENT, SPACE))
    express.submit("alice", m.SubscribeRequest(0, CONTENT.write_filter(CONTENT.compile("a > 0"))))
    express.submit("alice", m.PublishRequest(PAYLOAD))
    express.run()
    [seat] = express.seats()
    assert len(list(seat.events.copies)) == 1
    for _ in range(GRACE + 1):
        express.round()
    assert list(seat.events.copies) == []
    late = coming_down("alice/0", event=m.PeerEvent(m.EventId("alice", 1, 1), "default", PAYLOAD, 1))
    effects = express.peers["alice"].handle(late, sender="root", now=0.0)
    assert [type(effect) for effect in effects] == [Send], "it was delivered once"
