"""Coordinators of groups and of transactions. Each claims what it coordinates in ZooKeeper."""
