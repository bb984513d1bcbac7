"""A lab of chapter 10."""
