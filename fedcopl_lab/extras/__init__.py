"""Beside the core, loaded only when used: federations of machines, benchmarks, training of embedded CLIPs, clusters."""
