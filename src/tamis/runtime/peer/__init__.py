"""Peers on TCP: each process listens on one address, which is its name, and dials the others.

Start with `process`. Before the first message two peers greet each other (`handshake`): they prove that they share a
token, and agree on the protocol, the schema and the shape of the tree (`greeting`). `security` says when TLS and a
token are needed, `address` which addresses a peer may dial, `listener` and `receivers` hold the limits of what comes
and goes. Only the command line imports this folder.
"""
