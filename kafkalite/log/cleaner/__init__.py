"""Compaction: old records give way to newer ones of the same key."""
