"""Everything that speaks to Kafka, and the wire format of its records."""
