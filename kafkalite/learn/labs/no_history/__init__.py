"""A lab of chapter 14."""
