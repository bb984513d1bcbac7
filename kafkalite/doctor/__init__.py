"""What is wrong with a live cluster: checks on a snapshot of it, each with the command that mends what it finds."""
