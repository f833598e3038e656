"""What is known of libraries, models and deployment targets: JSON files, each entry with its evidence and version."""
