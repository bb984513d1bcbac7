"""A lab of chapter 12."""
