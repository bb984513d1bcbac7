"""The group coordinator: consumer groups of the classic protocol, their members, generations and offsets."""
