"""Events of sessions: their types, the log they are stored in, the recorder that writes them, and live delivery."""
