"""A real ZooKeeper from its jars, and a whole local cluster of processes."""
