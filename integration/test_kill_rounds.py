"""Rounds of kills, pauses and restarts under load: nothing acknowledged is lost, nothing moves backwards."""
