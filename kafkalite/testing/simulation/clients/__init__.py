"""Clients of a simulated cluster: they behave like Java's clients, and record their actions as events of a history."""
