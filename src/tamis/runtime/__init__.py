"""Drivers, which carry out the effects of the cores with real or simulated clocks, wires and disks."""
