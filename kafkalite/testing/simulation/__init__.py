"""Whole clusters in one process on virtual time: real brokers, simulated ZooKeeper, network, disks and faults."""
