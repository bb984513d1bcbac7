"""Tests of whole clusters: real processes, real clients, a real ZooKeeper; and the bench beside real Kafka."""
