"""The page itself, and the files beside it."""
