"""Sends the messages of subscriptions to HTTP endpoints.

`delivering` reads logs and runs the schedules of `tamis.routing.webhooks`, `documents` writes requests as CloudEvents,
and `calling` sends them over connections to addresses that were checked.
"""
