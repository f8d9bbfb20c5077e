"""`teia manifest`: sign the archive, and hand over what others need to verify it."""

from __future__ import annotations

from typing import Annotated

import typer

from teia.cli.long_work import archive_bytes, print_next, shown_work
from teia.cli.options import AsJson, Collection, Data, open_collection
from teia.cli.output import print_json, result_console
from teia.clock import WallClock
from teia.collections.settings import is_clustered
from teia.crawler.upkeep.closed_files import sign_all
from teia.errors import StoreError
from teia.store.manifest import read_manifest
from teia.store.root import open_root
from teia.store.signing_key import open_signer, public_keys, public_pem

app = typer.Typer(help="Sign the archive, and print what others need to verify it.", no_args_is_help=True)


@app.command()
def sign(data: Data, collection: Collection = None, as_json: AsJson = False) -> None:
    """Sign everything that is committed and not signed yet, without waiting for a file to be closed."""
    root, name = open_collection(data, collection)
    folder = root.collection(name)
    with root.locked(), shown_work("signing the archive", archive_bytes(root, name)):
        entries = sign_all(folder, WallClock(), cells_move=is_clustered(folder))
    manifest = read_manifest(folder.path)
    if as_json:
        print_json({"new_entries": entries, "entries": manifest.entries, "head": manifest.head})
    else:
        result_console().print(f"{entries:,} new entries, {manifest.entries:,} in all; the last one is {manifest.head}")
    print_next(f"teia audit manifest --data {data} --collection {name}, to verify them")


@app.command()
def key(
    data: Data, new: Annotated[bool, typer.Option("--new", help="Make the key if there is none yet.")] = False
) -> None:
    """Print the public key that verifies the manifests of the folder (PEM); the last one if there were several."""
    root = open_root(data)
    if new:
        with root.locked():
            open_signer(root.path)
    keys = public_keys(root.path)
    if not keys:
        raise StoreError(f"{root.path}: nothing was signed here yet; run `teia manifest sign`")
    print(public_pem(keys[-1]), end="")


@app.command()
def sums(data: Data, collection: Collection = None) -> None:
    """Print the digests of all closed files, as `sha256sum --check` reads them in the collection's folder."""
    root, name = open_collection(data, collection)
    for signed in read_manifest(root.collection(name).path).files.values():
        if signed.is_closed and not signed.is_lost:
            print(f"{signed.parts[0].said.sha256}  {signed.file}")
