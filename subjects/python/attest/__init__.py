"""The Python side of attest: declare a kernel under test with @attest.subject."""
from .function import subject
from .protocol import Refused, Unsupported

__all__ = ["subject", "Refused", "Unsupported"]
