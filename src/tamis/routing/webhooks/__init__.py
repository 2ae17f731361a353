"""Webhooks without a socket: what is registered, what to send next, what is signed, and where it may go.

`registration` keeps the webhooks of a broker on disk, `schedule` says what to send when, `signature` signs it, and
`rules` says which addresses may be called. `tamis.runtime.webhooks` sends.
"""
