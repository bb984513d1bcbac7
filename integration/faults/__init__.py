"""Shared parts of the fault tests: a workload that records its history, a checker of histories, seeded faults."""
