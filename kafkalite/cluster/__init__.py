"""The parts of a cluster as values, and the assignment of replicas. Pure."""
