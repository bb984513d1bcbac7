"""A KDC of MIT Kerberos for tests, on a free port of loopback, with all its files in one folder."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from integration.harness.wait import wait_for
from kafkalite.embedded.processes import free_ports

REALM: Final = "KAFKALITE.TEST"
REQUIRED: Final = os.environ.get("KAFKALITE_KERBEROS") == "required"
"""Whether a test fails, instead of being skipped, where Kerberos or the package gssapi is missing."""
_PATH: Final = f"{os.environ['PATH']}:/usr/sbin:/sbin"
_KRB5: Final = """\
[libdefaults]
    default_realm = {realm}
    dns_lookup_kdc = false
    dns_lookup_realm = false
    dns_canonicalize_hostname = false
    rdns = false
    udp_preference_limit = 1
[realms]
    {realm} = {{
        kdc = 127.0.0.1:{port}
    }}
"""
_KDC: Final = """\
[kdcdefaults]
    kdc_listen = 127.0.0.1:{port}
    kdc_tcp_listen = 127.0.0.1:{port}
[realms]
    {realm} = {{
        database_name = {folder}/principal
        key_stash_file = {folder}/stash
        acl_file = {folder}/kadm5.acl
        max_life = 1h
        supported_enctypes = aes256-cts-hmac-sha1-96:normal
    }}
[logging]
    kdc = FILE:{folder}/kdc.log
    admin_server = FILE:{folder}/kadmin.log
"""


def missing() -> str:
    """What the machine lacks for these tests; empty if it lacks nothing."""
    try:
        import gssapi  # noqa: F401
    except ImportError:
        return "the package gssapi (pip install 'kafkalite[gssapi]', with gcc and Debian's libkrb5-dev)"
    programs = [name for name in ("krb5kdc", "kdb5_util", "kadmin.local") if not shutil.which(name, path=_PATH)]
    return f"{', '.join(programs)} (Debian: krb5-kdc, krb5-admin-server)" if programs else ""


class Kdc:
    """Its realm has the principals that :meth:`keytab` makes."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        [port] = free_ports(1)
        (folder / "krb5.conf").write_text(_KRB5.format(realm=REALM, port=port))
        (folder / "kdc.conf").write_text(_KDC.format(realm=REALM, port=port, folder=folder))
        self._admin("kdb5_util", "-r", REALM, "-P", "of the database", "create", "-s")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def environment(self) -> Mapping[str, str]:
        """Environment variables of programs that use this realm: those of libkrb5, and one of Java."""
        return {
            "KRB5_CONFIG": str(self._folder / "krb5.conf"),
            "KRB5RCACHENAME": f"file2:{self._folder}/replays",
            "KRB5CCNAME": f"FILE:{self._folder}/tickets",
            "JAVA_TOOL_OPTIONS": f"-Djava.security.krb5.conf={self._folder / 'krb5.conf'}",
        }

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            ["krb5kdc", "-n", "-r", REALM, "-P", str(self._folder / "pid")],
            env=self._environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        log = self._folder / "kdc.log"
        wait_for(lambda: log.exists() and "commencing operation" in log.read_text(), "the KDC answers")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        self._process.terminate()
        self._process.wait(60)

    def keytab(self, *principals: str, life: str = "1h") -> Path:
        """A file with the keys of ``principals``, which are made; their tickets are good for ``life``."""
        name = principals[0].replace("/", "-")
        path = self._folder / f"{name}.keytab"
        lines = []
        for principal in principals:
            lines += [f'addprinc -randkey -maxlife "{life}" {principal}', f"ktadd -norandkey -k {path} {principal}"]
        self._admin("kadmin.local", "-r", REALM, commands="\n".join([*lines, ""]))
        return path

    def change_keys(self, principal: str) -> None:
        """Give ``principal`` other keys, so that its keytab is of no use any more."""
        self._admin("kadmin.local", "-r", REALM, commands=f"cpw -randkey {principal}\n")

    @property
    def _environment(self) -> dict[str, str]:
        profile = str(self._folder / "kdc.conf")
        return {**os.environ, **self.environment, "KRB5_KDC_PROFILE": profile, "PATH": _PATH}

    def _admin(self, *command: str, commands: str = "") -> None:
        done = subprocess.run(
            command, env=self._environment, input=commands, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, f"{command[0]}: {done.stdout}{done.stderr}"
