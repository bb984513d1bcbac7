"""Offsets of consumer groups: read through a watched cache, written in few transactions, kept in ZooKeeper alone."""
