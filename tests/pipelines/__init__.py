"""Unit tests of pipelines."""
