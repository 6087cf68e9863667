"""Words and colours that plots, report and notebooks share: never computes."""
