"""One key for each data folder, which nobody else reads, and which OpenSSL understands."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from teia.errors import CorruptFile, UsageError
from teia.store.signing_key import (
    KEY_FILE,
    PUBLIC_FILE,
    is_signed_by,
    open_signer,
    public_keys,
    public_pem,
    read_public_keys,
)


def test_the_key_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    assert public_keys(tmp_path) == []
    signer = open_signer(tmp_path)
    assert (tmp_path / KEY_FILE).stat().st_mode & 0o777 == 0o600
    assert open_signer(tmp_path) == signer
    assert public_keys(tmp_path) == [signer.public]
    signature = signer.sign(b"some octets")
    assert is_signed_by(signer.public, signature, b"some octets")
    assert not is_signed_by(signer.public, signature, b"some octet")
    assert not is_signed_by(open_signer(_folder(tmp_path)).public, signature, b"some octets")
    assert not is_signed_by(signer.public, signature[:-1], b"some octets")
    assert not is_signed_by(b"", signature, b"some octets")


def _folder(parent: Path) -> Path:
    folder = parent / "other"
    folder.mkdir()
    return folder


def test_openssl_reads_the_keys_and_verifies_a_signature(tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    signer = open_signer(tmp_path)
    (tmp_path / "data").write_bytes(b"some octets")
    (tmp_path / "signature").write_bytes(signer.sign(b"some octets"))
    verify = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", PUBLIC_FILE, "-rawin", "-in", "data"]
    subprocess.run([*verify, "-sigfile", "signature"], cwd=tmp_path, check=True, capture_output=True)
    show = ["openssl", "pkey", "-in", KEY_FILE, "-pubout"]
    shown = subprocess.run(show, cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    assert shown == public_pem(signer.public)


def test_a_folder_that_lost_its_private_key_gets_another_and_keeps_the_old_public_one(tmp_path: Path) -> None:
    old = open_signer(tmp_path).public
    (tmp_path / KEY_FILE).unlink()
    new = open_signer(tmp_path).public
    assert new != old
    assert public_keys(tmp_path) == [old, new]


def test_a_death_between_the_two_files_is_made_good_by_the_next_start(tmp_path: Path) -> None:
    signer = open_signer(tmp_path)
    (tmp_path / PUBLIC_FILE).unlink()
    assert open_signer(tmp_path) == signer
    assert public_keys(tmp_path) == [signer.public]


def test_other_files_are_refused_with_a_way_out(tmp_path: Path) -> None:
    (tmp_path / KEY_FILE).write_text("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")
    with pytest.raises(CorruptFile, match="restore it"):
        open_signer(tmp_path)
    with pytest.raises(UsageError, match="no Ed25519 public key"):
        read_public_keys(tmp_path / KEY_FILE)
