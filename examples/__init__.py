"""Scripts to read and to run, one subject each."""
