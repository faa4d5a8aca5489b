"""Ringonce takes notifications from Kafka and gets each one to its recipient over one channel, once, in time."""
