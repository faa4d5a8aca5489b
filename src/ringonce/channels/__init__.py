"""How a notification becomes a call: one row per channel, one module per protocol."""
