"""Work that would block the event loop: done in processes that can be killed, or in slices if it must stay here.

Start with `pool`, which shares a few worker processes among principals. `worker` is the program of such a process,
`jobs` the functions that it knows. `pacing` is for loops that cannot leave the broker's process, `rows` for answers
with many rows.
"""
