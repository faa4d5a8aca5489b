"""All roles of a fleet as child processes of one: for development and small installations."""
