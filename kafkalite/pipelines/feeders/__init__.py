"""Programs that write the topics of ready-made jobs, each with its own command: plain clients, without Spark."""
