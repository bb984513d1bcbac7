"""A lab of chapter 5."""
