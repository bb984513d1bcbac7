"""The transaction coordinator: transactional ids, their states, and how transactions are completed."""
