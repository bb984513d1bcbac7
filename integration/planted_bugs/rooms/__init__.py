"""The planted bugs, a module for each part of the brokers."""
