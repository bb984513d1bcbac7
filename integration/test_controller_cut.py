"""A broker that the controller's requests never reach: it learns from ZooKeeper what it must know."""
