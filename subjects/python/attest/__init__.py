"""The Python side of attest: declare a kernel under test with @attest.subject, a runtime of models with @attest.runtime."""
from .function import subject
from .protocol import Refused, Unsupported
from .models import runtime

__all__ = ["runtime", "subject", "Refused", "Unsupported"]
