"""The tape: recording, the reverse sweep, and what may be written meanwhile. No operator is known by its name."""
