"""kafkalite: the classic, ZooKeeper-coordinated Kafka broker cluster, in Python."""

__version__ = "0.1.0"
