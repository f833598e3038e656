"""What is examined once a file has been read, one file a rule, each with ``examine``."""
