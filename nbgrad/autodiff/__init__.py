"""The tape: recording, reverse sweeps, and the rules for writes while recording. It knows no operator by name."""
