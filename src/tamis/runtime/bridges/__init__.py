"""Bridges between a broker and other messaging systems: NATS, Kafka, MQTT.

`running` is the one bridge there is: it reads messages, publishes them as events, and sends what subscriptions get. A
system is a driver of `systems` behind the protocol of `system`. `lanes` and `content` need no connection.
"""
