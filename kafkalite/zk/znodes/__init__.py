"""Znodes as values: paths, and JSON to and from dataclasses. Pure."""
