"""The development stand: real servers on loopback, brought up without containers, and broken on purpose by tests."""
