"""The port of a broker: who may stay connected, for how long, and with which certificate.

`connection_limits` bounds connections before any request is read, `write_deadline` cuts off readers that do not read.
Only `tamis.web.serving` imports this folder.
"""
