"""The installed version of tersely."""

from importlib.metadata import version

VERSION = version("tersely")
