"""The promise: what is bounded, what is noised, what is counted; nothing here knows a model."""
