"""A broker under load: events published, matched, stored and delivered, beside Mosquitto and NATS."""
