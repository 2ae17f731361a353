"""Networks of brokers and peers in one process: real cores on simulated wires and disks."""
