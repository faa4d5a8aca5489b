"""The commands beside the roles: for whoever sets up, feeds and looks after a fleet."""
