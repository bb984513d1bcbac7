"""What feeds topics for ready-made jobs, each a command of its own: plain clients, without Spark."""
