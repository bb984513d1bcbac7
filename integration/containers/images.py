"""The images under test: built once for each state of the sources, and kept.

The official images are taken where they are there or a registry has them; otherwise the stand-ins of
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
"""Images of brokers that stay, the newest: each state of the sources makes one."""


def exists(image: str) -> bool:
    """Whether the daemon has ``image``."""
    return docker("image", "inspect", "--format", "{{.Id}}", image, check=False) != ""


@cache
def official(image: str) -> bool:
    """Whether ``image`` is there, or a registry gives it."""
    if exists(image):
        return True
    try:
        docker("pull", "--quiet", image, timeout=PULL_TIMEOUT)
    except (DockerError, subprocess.TimeoutExpired):
        return False
    return True


def fingerprint(paths: Iterable[Path], *more: str) -> str:
    """A tag that changes with the content of the files ``paths`` and with the words ``more``."""
    digest = hashlib.sha256("\0".join(more).encode())
    for path in sorted(paths):
        digest.update(f"\0{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def base() -> str:
    """Python on Debian: the official image, or its stand-in."""
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
    """ZooKeeper: the official image, or its stand-in from Debian's package."""
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
    """A broker, from the sources as they are now."""
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
            docker("rmi", *old, check=False)  # one that is in use stays
    return image


def sources() -> list[Path]:
    """All that goes into the image of a broker."""
    single = [ROOT / "pyproject.toml", ROOT / ".dockerignore", DOCKER / "broker.Dockerfile", *DOCKER.glob("*.py")]
    trees = [path for tree in TREES for path in (ROOT / tree).rglob("*") if path.is_file()]
    return single + [path for path in trees if path.suffix != ".pyc"]


def broker_context(directory: Path, ground: str) -> Path:
    """``directory`` with what the Dockerfile of the broker copies: the wheel, and those of all that it needs."""
    shutil.copytree(DOCKER, directory / "docker")
    shutil.copy(ROOT / ".dockerignore", directory)
    # A wheel that is built where the sources are takes in what an earlier one left there.
    source, dist = directory / "source", directory / "dist"
    for tree in TREES:
        shutil.copytree(ROOT / tree, source / tree, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    _pip("wheel", "--no-deps", "--wheel-dir", dist, source)
    [wheel] = dist.glob("kafkalite-*.whl")
    _pip("download", "--only-binary=:all:", "--dest", dist, *_target(ground), wheel)
    return directory


def _target(ground: str) -> Iterable[str]:
    # pip chooses wheels for the image's Python, which need not be the one of this machine
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
