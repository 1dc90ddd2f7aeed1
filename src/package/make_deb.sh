#!/bin/bash
# make_deb.sh: "make deb".  Makes build/deb/postgresql-N-hjoin-gpu_VERSION-REVISION_ARCH.deb for every server from 15 on
# whose headers are here.  The version is that of hjoin_gpu.control.
#
#   REVISION=1                  revision of the package
#   NVCC, CUDA_TARGETS          as the Makefile's; without nvcc the packages have no kernels, and say so
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. test/lib.sh

install_packages build deb
REVISION=${REVISION:-1}
version=$(sed -n "s/^default_version = '\(.*\)'/\1/p" hjoin_gpu.control)
maintainer=$(sed -n 's/^ *"maintainer": "\(.*\)",$/\1/p' src/package/META.json)
changed=$(git -c safe.directory='*' log -1 --format=%aD 2>/dev/null) || changed=$(date -R)
SERVERS=
for config in /usr/lib/postgresql/*/bin/pg_config; do
	[ -f "$("$config" --includedir-server)/postgres.h" ] || continue
	major=$("$config" --version | sed -n 's/^PostgreSQL \([0-9]*\).*/\1/p')
	[ "$major" -lt 15 ] || SERVERS="$SERVERS $major"
done
[ -n "$SERVERS" ] || die "no headers of a packaged server from 15 on: apt-get install postgresql-server-dev-all"

# packages are built in a copy of the sources, from nothing
tree=build/deb/hjoin-gpu-$version
rm -rf "$tree"
mkdir -p "$tree"
tar -cf - --exclude=./.git --exclude=./build --exclude='*.o' --exclude='*.so' --exclude=./hjoin_gpu_device . | tar -C "$tree" -xf -
debian=$tree/debian
cp -r src/package/debian "$debian"
sed -i "s/@MAINTAINER@/$maintainer/" "$debian/control"
for major in $SERVERS; do
	sed "s/PGVERSION/$major/g" "$debian/control.server" >>"$debian/control"
	cp "$debian/lintian-overrides" "$debian/postgresql-$major-hjoin-gpu.lintian-overrides"
done
cat >"$debian/changelog" <<END
hjoin-gpu ($version-$REVISION) unstable; urgency=medium

  * Version $version.

 -- $maintainer  $changed
END
{
	printf '%s\n' 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/' 'Upstream-Name: hjoin_gpu' '' \
		'Files: *' "Copyright: $(sed -n 's/^Portions Copyright (c) //p' LICENSE)" 'License: PostgreSQL'
	sed '1,/^Portions/d' LICENSE | sed '1{/^$/d}; s/^$/./; s/^/ /'
} >"$debian/copyright"

export SERVERS JOBS NVCC CUDA_TARGETS DEB_BUILD_OPTIONS=noautodbgsym
say "building in $tree for servers$SERVERS"
(cd "$tree" && dpkg-buildpackage --build=binary --unsigned-changes --no-check-builddeps) >build/deb/log 2>&1 || { tail -30 build/deb/log; die "the packages were not built: build/deb/log"; }
if compgen -G "$tree/build/kernels/*.fatbin" >/dev/null; then say "with kernels for NVIDIA GPUs:"; else say "without kernels for NVIDIA GPUs, as there is no nvcc:"; fi
for major in $SERVERS; do echo "build/deb/postgresql-$major-hjoin-gpu_$version-${REVISION}_"*.deb; done
