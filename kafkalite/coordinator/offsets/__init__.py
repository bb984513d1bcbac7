"""The committed offsets of consumer groups: stored in ZooKeeper, read through watches, written in few transactions."""
