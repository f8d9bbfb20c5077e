"""A network namespace with nothing but loopback in it.

Peers are told to stay on the site, but with one option missing a crawler requests every page that Python's
documentation links to. Where the kernel allows it (as root, or with user namespaces), there is no other network.
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
    """Leave the machine's network, with this process and all it starts; return False where that is not allowed."""
    kernel = ctypes.CDLL(None, use_errno=True)
    flags = CLONE_NEWNET if os.geteuid() == 0 else CLONE_NEWNET | CLONE_NEWUSER
    if kernel.unshare(flags) != 0:
        return False
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as anything:
        fcntl.ioctl(anything, SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", IFF_UP_AND_RUNNING))
    return True
