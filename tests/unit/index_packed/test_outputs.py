"""Room for answers is used again, but never while anyone can see it."""

from __future__ import annotations

import threading

import numpy as np
import pyarrow as pa

from tamis.index.packed.boxes.box_index import BoxIndex
from tamis.index.packed.boxes.outputs import Outputs

LARGE = 1 << 20


def test_room_comes_back_only_when_every_view_is_gone():
    outputs = Outputs()
    room = outputs.take(LARGE)
    place = room.ctypes.data
    part = room[10:20][::2]
    outputs.give(room)
    del room
    assert outputs.take(LARGE).ctypes.data != place
    shared = pa.array(part[:3].copy()), memoryview(part)
    del part
    assert outputs.take(LARGE).ctypes.data != place
    del shared
    assert outputs.take(LARGE).ctypes.data == place


def test_little_and_much_too_large_room_is_not_kept():
    outputs = Outputs()
    for size, wanted in ((1_000, 1_000), (1 << 22, LARGE // 2)):
        room = outputs.take(size)
        place = room.ctypes.data
        outputs.give(room)
        again = outputs.take(wanted)
        assert again is not room
        assert again.size == wanted
        assert size < LARGE or place != again.ctypes.data
        del room


def test_no_more_than_two_rooms_are_kept():
    outputs = Outputs()
    rooms = [outputs.take(LARGE) for _ in range(4)]
    for room in rooms:
        outputs.give(room)
    places = {room.ctypes.data for room in rooms[2:]}
    del room, rooms
    kept = [outputs.take(LARGE), outputs.take(LARGE)]
    assert {room.ctypes.data for room in kept} == places


def crowded_index(n=3_000):
    index = BoxIndex(1)
    index.add_boxes(np.zeros((n, 1)), np.ones((n, 1)), np.arange(n, dtype=np.int32))
    return index


def test_an_answer_that_a_caller_holds_never_changes():
    index, events = crowded_index(), np.full((400, 1), 0.5)
    index.match_points(events)
    held = [index.match_points(events)[1] for _ in range(3)]
    copies = [rows.copy() for rows in held]
    parts = held.pop(0)[5:9]
    for _ in range(5):
        index.match_points(np.full((400, 1), 2.0))
        index.match_points(events[:350])
    assert all(np.array_equal(rows, copy) for rows, copy in zip(held, copies[1:], strict=True))
    assert np.array_equal(parts, copies[0][5:9])


def test_room_is_really_used_again():
    index, events = crowded_index(), np.full((400, 1), 0.5)
    index.match_points(events)
    places = {index.match_points(events)[1].ctypes.data for _ in range(6)}
    assert len(places) <= 2


def test_threads_share_the_room_safely():
    index = crowded_index(2_000)
    wrong: list[str] = []

    def match(width):
        events = np.full((width, 1), 0.5)
        want = np.tile(np.arange(2_000), width)
        for _ in range(15):
            offsets, rows = index.match_points(events)
            if (
                not np.array_equal(np.sort(rows.reshape(width, 2_000), axis=1).ravel(), want)
                or offsets[-1] != rows.size
            ):
                wrong.append(f"{width} events")

    threads = [threading.Thread(target=match, args=(width,)) for width in (200, 210, 220, 230)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
