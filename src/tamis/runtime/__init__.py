"""Drivers: what carries the effects of the cores out, with a clock, wires and disks, real or simulated."""
