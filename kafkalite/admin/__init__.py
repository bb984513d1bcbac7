"""Topics and configurations as clients administer them, written to ZooKeeper."""
