"""The port of a broker: limits and deadlines of connections, and the TLS certificate.

`connection_limits` bounds connections before any request is read, `handshakes` counts those that are not encrypted yet,
`write_deadline` cuts off readers that do not read. `tamis.web.serving` puts them around the protocols of uvicorn.
"""
