"""Record batches and the older message formats: parsing, checking, conversion, compression. Pure."""
