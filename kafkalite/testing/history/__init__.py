"""What a run of a cluster looked like from outside, and what of it cannot be."""
