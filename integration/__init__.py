"""Tests of whole clusters with real processes, real clients and a real ZooKeeper, and the bench beside real Kafka."""
