"""Causes: one file each, a hypothesis that is tested on the numbers of the guilty region."""
