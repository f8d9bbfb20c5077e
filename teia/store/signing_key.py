"""The key with which an installation signs the manifests of its archives: Ed25519 (RFC 8032).

    DIR/signing.key    the private key, for its owner alone (PKCS #8, PEM)
    DIR/signing.pub    the public keys of the folder, the one in use last (SubjectPublicKeyInfo, PEM)

OpenSSL reads both. The key is made when the first entry is signed. A folder that lost its private key gets a new one;
the old public key stays in `signing.pub`, so that earlier entries can still be verified.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
import secrets
from dataclasses import dataclass
from pathlib import Path

from teia.durable import disk_errors, replacing
from teia.errors import CorruptFile, UsageError

KEY_FILE, PUBLIC_FILE = "signing.key", "signing.pub"
KEY_BYTES = 32

# The fixed beginnings of the two structures for Ed25519 (RFC 8410); the 32 octets of the key follow.
_PRIVATE_START = bytes.fromhex("302e020100300506032b657004220420")
_PUBLIC_START = bytes.fromhex("302a300506032b6570032100")
_PEM = re.compile(r"-----BEGIN ([A-Z ]+)-----\s+([A-Za-z0-9+/=\s]+?)\s*-----END \1-----")


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A private key; `public` is its public key."""

    seed: bytes
    public: bytes

    def sign(self, data: bytes) -> bytes:
        from nacl.bindings import crypto_sign, crypto_sign_BYTES

        return crypto_sign(data, self.seed + self.public)[:crypto_sign_BYTES]


def is_signed_by(public: bytes, signature: bytes, data: bytes) -> bool:
    """Verify a signature."""
    from nacl.bindings import crypto_sign_BYTES, crypto_sign_open
    from nacl.exceptions import CryptoError

    if len(signature) != crypto_sign_BYTES or len(public) != KEY_BYTES:
        return False
    try:
        crypto_sign_open(signature + data, public)
    except CryptoError:
        return False
    return True


def open_signer(root: Path) -> SigningKey:
    """Return the key of a data folder; it is made if there is none. Only the holder of the root's lock may call it."""
    path = root / KEY_FILE
    with disk_errors(path, "read"):
        text = path.read_text("ascii", "replace") if path.exists() else ""
    if text:
        seeds = _read_pem(text, "PRIVATE KEY", _PRIVATE_START)
        if len(seeds) != 1:
            raise CorruptFile(path, "is not an Ed25519 key; restore it from a backup, or move it away to get a new one")
    else:
        seeds = [secrets.token_bytes(KEY_BYTES)]
        with disk_errors(path, "written"), replacing(path) as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(_pem("PRIVATE KEY", _PRIVATE_START + seeds[0]).encode())
    signer = _signer(seeds[0])
    # After the private key: a crash between the two is repaired here, by the next call.
    known = public_keys(root)
    if signer.public not in known[-1:]:
        with replacing(root / PUBLIC_FILE) as file:
            keys = [*(key for key in known if key != signer.public), signer.public]
            file.write("".join(map(public_pem, keys)).encode())
    return signer


def public_keys(root: Path) -> list[bytes]:
    """Return the public keys of a data folder, the one in use last; none if nothing was signed here."""
    path = root / PUBLIC_FILE
    return read_public_keys(path) if path.exists() else []


def read_public_keys(path: Path) -> list[bytes]:
    """Return the public keys of a PEM file."""
    with disk_errors(path, "read"):
        text = path.read_text("ascii", "replace")
    keys = _read_pem(text, "PUBLIC KEY", _PUBLIC_START)
    if not keys:
        raise UsageError(f"{path}: has no Ed25519 public key in PEM")
    return keys


def public_pem(key: bytes) -> str:
    """Return a public key as OpenSSL reads it."""
    return _pem("PUBLIC KEY", _PUBLIC_START + key)


def _signer(seed: bytes) -> SigningKey:
    from nacl.bindings import crypto_sign_seed_keypair

    return SigningKey(seed, crypto_sign_seed_keypair(seed)[0])


def _pem(label: str, data: bytes) -> str:
    return f"-----BEGIN {label}-----\n{base64.b64encode(data).decode()}\n-----END {label}-----\n"


def _read_pem(text: str, label: str, start: bytes) -> list[bytes]:
    """Return the keys of the blocks with this label; other blocks are ignored."""
    found = []
    for name, body in _PEM.findall(text):
        try:
            data = base64.b64decode("".join(body.split()), validate=True)
        except binascii.Error:
            continue
        if name == label and data.startswith(start) and len(data) == len(start) + KEY_BYTES:
            found.append(data.removeprefix(start))
    return found
