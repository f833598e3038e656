"""What runs inside a worker process: measurements of implementations, each a job that yields messages."""
