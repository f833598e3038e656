"""What a config or a graph means: which variant each activation field or subgraph computes, without running it."""
