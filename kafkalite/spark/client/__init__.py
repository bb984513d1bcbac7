"""A blocking Kafka client for Spark's processes: sockets, no threads, no reactor."""
