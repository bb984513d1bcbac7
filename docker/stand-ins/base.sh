#!/bin/sh
# A stand-in for python:3.12-slim, from Debian's packages: for places where no image registry answers.
#
#   docker/stand-ins/base.sh [IMAGE]        as root; IMAGE defaults to kafkalite-stand-in/base
#
# Needs debootstrap, tar and docker. SUITE and MIRROR choose another Debian.
set -eu
image=${1:-kafkalite-stand-in/base}
suite=${SUITE:-trixie}
mirror=${MIRROR:-http://deb.debian.org/debian}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root

debootstrap --variant=minbase --include=python3,python3-venv "$suite" "$root" "$mirror" >"$work/log" 2>&1 || {
    tail -n 20 "$work/log" >&2
    exit 1
}
# What an image of a service never reads. Packages that are installed on top leave it out, too.
cat >"$root/etc/dpkg/dpkg.cfg.d/slim" <<'SLIM'
path-exclude /usr/share/doc/*
path-exclude /usr/share/man/*
path-exclude /usr/share/info/*
path-exclude /usr/share/locale/*
SLIM
for unread in doc man info locale; do
    rm -rf "$root/usr/share/$unread"
    mkdir "$root/usr/share/$unread"
done
find "$root/var/cache/apt" "$root/var/lib/apt/lists" "$root/var/log" -type f -delete
find "$root" -xdev -name __pycache__ -prune -exec rm -rf {} +

tar -C "$root" --numeric-owner -c . | docker import --change 'CMD ["python3"]' - "$image"
