"""Configs in JSON, one file a dialect: what its fields mean.

A dialect is a module with ``FORMAT``, ``understands(config)`` and ``read(config)``.
"""
