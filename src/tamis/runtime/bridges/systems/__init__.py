"""The messaging systems that a bridge can read and write, one driver each: NATS, Kafka, MQTT."""
