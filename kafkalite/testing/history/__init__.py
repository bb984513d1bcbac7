"""The history of a cluster as its clients saw it, and a checker of the rules that it must keep."""
