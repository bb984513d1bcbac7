"""Coordinators: of consumers' offsets, of groups, of transactions."""
