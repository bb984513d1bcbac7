"""Pipelines as users run them, on real clusters and a real Spark."""
