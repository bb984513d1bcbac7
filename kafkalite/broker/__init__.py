"""A broker put together: configuration, registration, session, metadata, servers."""
