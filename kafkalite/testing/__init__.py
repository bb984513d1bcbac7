"""Memory twins of the edges, for tests: virtual time, a ZooKeeper in memory."""
