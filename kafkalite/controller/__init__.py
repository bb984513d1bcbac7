"""The controller: who leads each partition, decided one event at a time."""
