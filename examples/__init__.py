"""Short scripts to read and to run, each about one subject."""
