"""Defects that are planted into the brokers, one at a time; the simulation must find each of them."""
