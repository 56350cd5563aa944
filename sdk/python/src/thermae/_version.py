"""The version of the package, which is also that of the workspace."""

VERSION = "0.1.0"
