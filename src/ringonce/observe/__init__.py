"""What the core tells the world: events, and who listens to them."""
