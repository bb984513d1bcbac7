"""The images under test, built once for each state of the sources, and kept.

The official base images are used if the daemon or a registry has them; otherwise the replacements in
``docker/stand-ins`` are built.
"""

from __future__ import annotations

import hashlib
import json
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from integration.containers.daemon import DockerError, docker

ROOT = Path(__file__).resolve().parents[2]
DOCKER = ROOT / "docker"
STAND_INS = DOCKER / "stand-ins"
TREES = ("kafkalite", "zk_schema")
PYTHON = "python:3.12-slim"
ZOOKEEPER = "zookeeper:3.9"
REPOSITORY = "kafkalite-test"
PULL_TIMEOUT = 120.0
KEPT = 5
"""Number of broker images that are kept, the newest, because each state of the sources makes one."""


def exists(image: str) -> bool:
    """Whether the daemon has ``image``."""
    return docker("image", "inspect", "--format", "{{.Id}}", image, check=False) != ""


@cache
def official(image: str) -> bool:
    """Whether the daemon or a registry has ``image``."""
    if exists(image):
        return True
    try:
        docker("pull", "--quiet", image, timeout=PULL_TIMEOUT)
    except (DockerError, subprocess.TimeoutExpired):
        return False
    return True


def fingerprint(paths: Iterable[Path], *more: str) -> str:
    """A tag that depends on the content of the files ``paths`` and on the words ``more``."""
    digest = hashlib.sha256("\0".join(more).encode())
    for path in sorted(paths):
        digest.update(f"\0{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def base() -> str:
    """Name of the image with Python on Debian: the official one, or its replacement."""
    if official(PYTHON):
        return PYTHON
    script = STAND_INS / "base.sh"
    image = f"{REPOSITORY}/base:{fingerprint([script])}"
    if not exists(image):
        if shutil.which("debootstrap") is None:
            raise DockerError(
                f"no registry has {PYTHON}, and its stand-in needs debootstrap: apt-get install debootstrap"
            )
        done = subprocess.run([str(script), image], capture_output=True, text=True, check=False)
        if done.returncode:
            raise DockerError(f"{script}: {done.stderr[-2000:]}")
    return image


def zookeeper() -> str:
    """Name of ZooKeeper's image: the official one, or its replacement with Debian's package."""
    if official(ZOOKEEPER):
        return ZOOKEEPER
    ground = base()
    image = f"{REPOSITORY}/zookeeper:{fingerprint(STAND_INS.iterdir(), ground)}"
    if not exists(image):
        docker(
            *("build", "--quiet", "--tag", image, "--build-arg", f"BASE={ground}"),
            *("--file", STAND_INS / "zookeeper.Dockerfile", STAND_INS),
        )
    return image


def broker() -> str:
    """Name of the broker's image, built from the current sources."""
    ground = base()
    image = f"{REPOSITORY}/broker:{fingerprint(sources(), ground)}"
    if not exists(image):
        with tempfile.TemporaryDirectory(prefix="kafkalite-image-") as directory:
            context = broker_context(Path(directory), ground)
            docker(
                *("build", "--quiet", "--tag", image),
                *("--build-arg", f"BASE={ground}", "--build-arg", "PIP_ARGS=--no-index"),
                *("--file", context / "docker" / "broker.Dockerfile", context),
            )
        old = docker("images", "--format", "{{.Repository}}:{{.Tag}}", f"{REPOSITORY}/broker").split()[KEPT:]
        if old:
            docker("rmi", *old, check=False)  # an image in use is not removed
    return image


def sources() -> list[Path]:
    """All files from which the broker's image is built."""
    single = [ROOT / "pyproject.toml", ROOT / ".dockerignore", DOCKER / "broker.Dockerfile", *DOCKER.glob("*.py")]
    trees = [path for tree in TREES for path in (ROOT / tree).rglob("*") if path.is_file()]
    return single + [path for path in trees if path.suffix != ".pyc"]


def broker_context(directory: Path, ground: str) -> Path:
    """Put the files that the broker's Dockerfile copies into ``directory``: the wheel, and its dependencies' wheels."""
    shutil.copytree(DOCKER, directory / "docker")
    shutil.copy(ROOT / ".dockerignore", directory)
    # Build from a copy, because a build in the source folder takes in the files that an earlier build left there.
    source, dist = directory / "source", directory / "dist"
    for tree in TREES:
        shutil.copytree(ROOT / tree, source / tree, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    _pip("wheel", "--no-deps", "--wheel-dir", dist, source)
    [wheel] = dist.glob("kafkalite-*.whl")
    _pip("download", "--only-binary=:all:", "--dest", dist, *_target(ground), f"{wheel}[security]")
    return directory


def _target(ground: str) -> Iterable[str]:
    # Ask the image, because its Python, for which pip chooses wheels, may differ from the Python of this machine.
    ask = "import json, sys; print(json.dumps(list(sys.version_info[:2])))"
    major, minor = json.loads(docker("run", "--rm", "--entrypoint", "python3", ground, "-c", ask))
    yield from ("--python-version", f"{major}.{minor}", "--implementation", "cp")
    for abi in (f"cp{major}{minor}", f"abi{major}", "none"):
        yield from ("--abi", abi)
    for platform_name in ("manylinux2014", "manylinux_2_28", "manylinux_2_34"):
        yield from ("--platform", f"{platform_name}_{platform.machine()}")


def _pip(*arguments: object) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *map(str, arguments)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise DockerError(f"{' '.join(command)}: {done.stderr[-2000:]}")
