"""The group coordinator, the transaction coordinator and the committed offsets of groups."""
