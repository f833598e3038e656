"""The adapters that framework-parity brings along: one room a framework, each with the same files."""
