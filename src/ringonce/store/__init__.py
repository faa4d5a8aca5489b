"""What is kept: the gate and the history, in PostgreSQL."""
