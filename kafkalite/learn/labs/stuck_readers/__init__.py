"""A lab of chapter 9."""
