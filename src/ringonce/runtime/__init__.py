"""The loops: router, sender, DLQ recorder and replay, and the parts that they are made of."""
