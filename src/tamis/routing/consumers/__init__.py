"""Consumers that share the queue of one subscription, and the letters that none of them could deal with.

`requests` is what the process around the edge asks, `sharing` decides. Nothing here knows a clock or a socket.
"""
