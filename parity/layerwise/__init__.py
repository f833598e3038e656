"""Two opened models side by side: their ends, their aligned tensors, and the error that each region adds by itself."""
