"""What `parity diff` costs beside its peers: what is run, how it is watched, and the tables of it."""
