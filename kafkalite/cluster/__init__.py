"""What a cluster consists of, as values, and who holds which replica. Pure."""
