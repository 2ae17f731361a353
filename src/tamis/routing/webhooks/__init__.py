"""Webhooks without I/O: registration, scheduling, signatures, and the rules for addresses.

`registration` keeps the webhooks of a broker on disk, `schedule` decides what to send when, `signature` signs it, and
`rules` decides which addresses may be called. `tamis.runtime.webhooks` sends.
"""
