"""What is measured, and how; the last results are in `results/`."""
