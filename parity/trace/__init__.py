"""Recorded runs on disk: safetensors shards and a manifest."""
