"""What graph readers share: a small graph, elementwise regions in it, their evaluation and their names."""
