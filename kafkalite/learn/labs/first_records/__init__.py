"""A lab of chapter 1."""
