"""The history of a cluster through its clients, and a checker of its rules."""
