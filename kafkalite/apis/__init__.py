"""One API key, one file; the registry that dispatches them also answers ApiVersions."""
