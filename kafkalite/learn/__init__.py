"""The labs of the course: small tasks on a live local cluster, with a check that looks at its real state."""
