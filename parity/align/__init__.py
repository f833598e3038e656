"""Which tensor of the reference is which tensor of the candidate, and why we believe it."""
