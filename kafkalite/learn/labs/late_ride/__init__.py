"""A lab of chapter 13."""
