"""Networks of brokers under load: what a link costs, beside one broker that holds everything.

`measure` runs a topology of real ``tamis serve`` processes (`brokers`) with the publisher and the readers of
`tamis_bench.serving`; `link_bytes` reads what TCP carried, `peers` runs NATS and Mosquitto the same way, `tables`
arranges the rows. Start reading at `measure`.
"""
