"""Reports for people and for machines, one format or command a file. Together with ``parity.cli`` all that writes."""
