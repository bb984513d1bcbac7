"""A lab of chapter 11."""
