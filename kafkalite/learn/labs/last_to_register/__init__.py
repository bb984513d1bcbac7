"""A lab of chapter 4."""
