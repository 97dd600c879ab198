"""The one family of errors that users are meant to read."""


class FedCoPLError(ValueError):
    """A bad value, what was expected instead, and what to do, in one line.

    The command line prints it without a traceback and exits with status 2.

    >>> raise FedCoPLError("q_conf=1.5 is outside [0, 1]; choose a quantile level such as 0.5")
    Traceback (most recent call last):
    fedcopl_lab._errors.FedCoPLError: q_conf=1.5 is outside [0, 1]; choose a quantile level such as 0.5
    """


class StoreError(FedCoPLError):
    """The run store cannot be read or written as it must be."""
