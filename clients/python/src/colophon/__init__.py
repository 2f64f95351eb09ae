"""Records how texts were generated in a Colophon ledger, and verifies its receipts. README.md has an introduction."""

from ._generation import Generation, labels
from ._recorder import Stats
from .errors import ColophonError, LedgerError, RecordError, SpoolError, UnreachableError, VerificationError
from .langchain import langchain_handler
from .ledger import Ledger
from .litellm import litellm_logger
from .wrap import wrap

__version__ = "0.0.0"

__all__ = [
    "ColophonError", "Generation", "Ledger", "LedgerError", "RecordError", "SpoolError", "Stats", "UnreachableError", "VerificationError",
    "labels", "langchain_handler", "litellm_logger", "wrap",
]
