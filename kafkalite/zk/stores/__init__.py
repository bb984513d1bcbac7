"""Reading and writing znodes, one store a subtree."""
