"""A network of our own with nothing in it but loopback.

Peers are told to stay on the site, but it takes one option less and a crawler asks for every page that Python's
documentation links to. Where the kernel lets us (as root, or with user namespaces), there is no way out at all.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct

CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000
SIOCSIFFLAGS = 0x8914
IFF_UP_AND_RUNNING = 0x1 | 0x40


def confine() -> bool:
    """Leave the machine's network, this process and all it starts; False where that is not allowed."""
    kernel = ctypes.CDLL(None, use_errno=True)
    flags = CLONE_NEWNET if os.geteuid() == 0 else CLONE_NEWNET | CLONE_NEWUSER
    if kernel.unshare(flags) != 0:
        return False
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as anything:
        fcntl.ioctl(anything, SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", IFF_UP_AND_RUNNING))
    return True
