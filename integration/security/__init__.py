"""Security with real parts: one file a subject."""
