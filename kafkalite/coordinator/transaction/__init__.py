"""Transactions: who has one open, how it ends, and what follows from that."""
