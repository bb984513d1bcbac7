"""A topic deleted and made anew under its name while a replica was down: no old data, no stuck epoch."""
