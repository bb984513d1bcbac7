"""A lab of chapter 7."""
