"""What the figures say, in sentences."""
