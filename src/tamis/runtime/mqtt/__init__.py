"""MQTT: a connection for asyncio, and the bridge between its topics and a broker."""
