"""Words, colours and rankings that plots, report, command line and notebooks share; never computes."""
