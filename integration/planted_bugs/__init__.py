"""Defects that are planted into the brokers, one at a time: the simulation has to find every one of them."""
