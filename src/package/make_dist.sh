#!/bin/bash
# make_dist.sh: "make dist".  Makes build/dist/hjoin_gpu-VERSION.zip of the last commit, as the PostgreSQL Extension
# Network takes it: with META.json, which has the version of hjoin_gpu.control in three parts.
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
set -eu

extension_version=$(sed -n "s/^default_version = '\(.*\)'/\1/p" hjoin_gpu.control)
version=$extension_version.0
mkdir -p build/dist
sed "s/@VERSION@/$version/; s/@EXTENSION_VERSION@/$extension_version/" src/package/META.json >build/dist/META.json
git -c safe.directory='*' archive --format=zip --prefix="hjoin_gpu-$version/" --add-file=build/dist/META.json \
	--output="build/dist/hjoin_gpu-$version.zip" HEAD
[ -z "$(git -c safe.directory='*' status --porcelain)" ] || echo "changes that are not committed are not in it"
echo "build/dist/hjoin_gpu-$version.zip"
