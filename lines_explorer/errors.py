"""The one error a user can cause."""


class ExplorerError(Exception):
    """Bad input. The message is one clear sentence that names the thing and says what to do.

    The command line prints it and exits with 2; the page shows it as a notice.
    """
