#!/bin/sh
# Puts PostgreSQL's isolation suite (`specs` and `expected`) into the directory given as argument.
#
# It is part of PostgreSQL's source and not of this project. On a Debian-like machine the source
# package comes from where the machine gets its packages; the list of sources is derived from the
# machine's own, used once, and deleted. ROWLOCK_ISOLATION_SUITE, if set, names a directory that has
# the suite already (`src/test/isolation` of a source tree).
set -eu
target=$1
[ -d "$target/specs" ] && [ -d "$target/expected" ] && exit 0
mkdir -p "$target"
if [ -n "${ROWLOCK_ISOLATION_SUITE:-}" ]; then
    cp -R "$ROWLOCK_ISOLATION_SUITE/specs" "$ROWLOCK_ISOLATION_SUITE/expected" "$target/"
    exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/parts" "$work/lists/partial" "$work/cache/archives/partial" "$work/source"
found=
for list in /etc/apt/sources.list.d/*.sources; do
    [ -e "$list" ] || continue
    sed 's/^Types:.*/Types: deb-src/' "$list" >"$work/parts/$(basename "$list")"
    found=1
done
for list in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    [ -e "$list" ] || continue
    sed -n 's/^deb /deb-src /p' "$list" >"$work/parts/$(basename "$list" .list).list"
    found=1
done
[ -n "$found" ] || { echo "this machine has no list of package sources" >&2; exit 1; }
apt() {
    apt-get -qq -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$work/parts" \
        -o Dir::State::Lists="$work/lists" -o Dir::Cache="$work/cache" -o APT::Sandbox::User=root "$@"
}
apt update >&2
cd "$work/source"
# A newer security version may have no source there; any source of the major version will do.
version=$(dpkg-query -W -f '${Version}' postgresql-15 2>/dev/null || true)
{ [ -n "$version" ] && apt source --download-only "postgresql-15=$version" >&2; } \
    || apt source --download-only postgresql-15 >&2
tar --wildcards -xf postgresql-15_*.orig.tar.bz2 --strip-components=4 \
    '*/src/test/isolation/specs' '*/src/test/isolation/expected'
# Last, so that a directory that is there is complete.
mv expected specs "$target/"
