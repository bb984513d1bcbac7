"""A lab of chapter 6."""
