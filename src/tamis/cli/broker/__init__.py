"""The commands that run, feed and watch brokers: serve, publish, subscribe, bridge, network, peer."""
