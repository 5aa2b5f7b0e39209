"""The one kernel of attention that can be differentiated twice."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from threading import Lock

from torch.nn.attention import SDPBackend, sdpa_kernel

_lock = Lock()
_kernel = ExitStack()
_users = 0


@contextmanager
def math_attention() -> Iterator[None]:
    """Run attention by PyTorch's math kernel.

    The choice of a kernel is one for the whole process. Whoever comes first makes it and whoever leaves last takes
    it back: a thread that restored what it had seen would take the kernel from another, or leave it set for ever.

    >>> import torch
    >>> with math_attention():
    ...     torch.backends.cuda.flash_sdp_enabled()
    False
    """
    global _users
    with _lock:
        if _users == 0:
            _kernel.enter_context(sdpa_kernel(SDPBackend.MATH))
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                _kernel.close()
