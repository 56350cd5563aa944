"""Wheels and source distributions that tests make."""

import base64
import hashlib
import io
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path


def wheel(
    folder: Path,
    name: str,
    version: str = "1.0",
    files: Mapping[str, str] | None = None,
    requires: Sequence[str] = (),
    scripts: Mapping[str, str] | None = None,
) -> Path:
    """Makes a wheel of pure Python. By default, it has one module of its name, whose `VERSION` is its version.

    `scripts` are its commands, with their entry points.
    """
    files = files or {f"{name}.py": f"VERSION = {version!r}\n"}
    info = f"{name}-{version}.dist-info"
    needs = "".join(f"Requires-Dist: {one}\n" for one in requires)
    all_files = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    if scripts:
        lines = "".join(f"{command} = {entry}\n" for command, entry in scripts.items())
        all_files[f"{info}/entry_points.txt"] = f"[console_scripts]\n{lines}"
    record = ""
    for path, text in all_files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        record += f"{path},sha256={digest},{len(text.encode())}\n"
    folder.mkdir(parents=True, exist_ok=True)
    made = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(made, "w") as archive:
        for path, text in all_files.items():
            archive.writestr(path, text)
        archive.writestr(f"{info}/RECORD", f"{record}{info}/RECORD,,\n")
    return made


def source_distribution(folder: Path, name: str, mark: Path) -> Path:
    """Makes a source distribution that needs nothing to be built. Its build makes the file `mark`."""
    backend = f"""
import pathlib, sys
pathlib.Path({str(mark)!r}).write_text("built")
sys.path.insert(0, {str(Path(__file__).parent)!r})
import wheels
def build_wheel(folder, config_settings=None, metadata_directory=None):
    return wheels.wheel(pathlib.Path(folder), {name!r}).name
"""
    project = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    info = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
    folder.mkdir(parents=True, exist_ok=True)
    made = folder / f"{name}-1.0.tar.gz"
    with tarfile.open(made, "w:gz") as archive:
        for path, text in {"pyproject.toml": project, "backend.py": backend, "PKG-INFO": info}.items():
            member = tarfile.TarInfo(f"{name}-1.0/{path}")
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
    return made
