"""Consumer groups as the classic protocol has them: membership, generations, and whom offsets belong to."""
