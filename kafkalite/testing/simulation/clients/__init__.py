"""Clients of a simulated cluster: they act as Java's clients do, and note what they did as events of a history."""
