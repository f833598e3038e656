"""Reports as one HTML file that needs no network: a module a command makes plain data, one template shows it."""
