"""Which tersely this is."""

from importlib.metadata import version

VERSION = version("tersely")
