"""Parts of `make_scan_knowledge`: what transformers does with the activation fields of its configs."""
