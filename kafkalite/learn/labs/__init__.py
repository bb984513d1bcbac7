"""One folder a lab: ``lab.md`` has its text, ``lab.py`` its set-up and its check."""
