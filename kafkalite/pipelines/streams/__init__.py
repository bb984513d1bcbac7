"""Processing of topics: small functions from DataFrame to DataFrame, for streams and for batches alike.

``values`` (what stands in a record's value ↔ columns), ``filters``, ``windows``, ``joins``, ``sessions``, ``state``.
None of them starts anything, reads anything or knows where its rows come from.
"""
