"""Processing of topics: small functions from DataFrame to DataFrame, for streams and for batches alike.

``values`` (a record's value ↔ columns), ``filters``, ``windows``, ``joins``, ``sessions``, ``state``.
None of them starts a query, reads data or depends on the source of its rows.
"""
