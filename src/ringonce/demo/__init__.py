"""A hundred notifications delivered, retried, dead-lettered and replayed in front of you, in under a minute."""
