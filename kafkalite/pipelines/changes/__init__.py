"""A database's changes as records, and a table made of them again."""
