"""`make bench`: kafkalite beside real Apache Kafka on the same machine, written to docs/performance.md."""
