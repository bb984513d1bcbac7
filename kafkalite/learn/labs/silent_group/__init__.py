"""A lab of chapter 8."""
