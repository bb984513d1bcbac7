"""What the integration tests and the bench share: clusters, real Kafka, Java tools, workloads, conditions."""
