"""ZooKeeper: the client, watches, znodes as values, and the stores that read and write them."""
