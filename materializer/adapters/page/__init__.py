"""The report page: a folder of files that a browser shows without a server or a network, or a server on this machine."""
