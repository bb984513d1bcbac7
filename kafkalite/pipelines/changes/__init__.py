"""A database's changes as records, and copies of tables from them."""
