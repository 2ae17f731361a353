"""A broker's one port: HTTP, server-sent events, WebSocket, metrics."""
