"""Partitions and their replicas: leading, following, ISR, high watermark."""
