"""A lab of chapter 2."""
