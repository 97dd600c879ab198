"""What ``flwr run`` loads; all of it is in the package."""
