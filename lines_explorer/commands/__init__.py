"""What each verb of the command line does: options in, a ``Report`` out; no printing here."""
