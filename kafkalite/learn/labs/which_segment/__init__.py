"""A lab of chapter 3."""
