#!/bin/sh
# Installs and starts Coracle, and exports what "coracle env" says to the steps that follow.
# https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands
set -eu

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo --preserve-env "$@"; fi; }

case "$(uname -m)" in
x86_64) arch=amd64 ;;
aarch64) arch=arm64 ;;
*)
	echo "::error::there is no release of Coracle for $(uname -m)"
	exit 1
	;;
esac

home=${RUNNER_TEMP:-/tmp}/coracle
mkdir -p "$home"
archive=${INPUT_ARCHIVE:-}
version=${INPUT_VERSION:-latest}
checkout=$(cd "$(dirname "$0")/../../.." && pwd)
if [ -z "$archive" ] && [ "$version" = latest ] && [ -e "$checkout/cmd/coracle/main.go" ]; then
	make -C "$checkout" build
	bin=$checkout/bin
else
	if [ -z "$archive" ]; then
		releases=https://github.com/${CORACLE_REPOSITORY:-coracle-eks/coracle}/releases
		if [ "$version" = latest ]; then
			version=$(curl --fail --silent --show-error --location --output /dev/null --write-out '%{url_effective}' "$releases/latest")
			version=${version##*/}
		fi
		name=coracle-$version-linux-$arch.tar.gz
		for file in "$name" SHA256SUMS; do
			curl --fail --silent --show-error --location --retry 3 --output "$home/$file" "$releases/download/$version/$file"
		done
		(cd "$home" && grep " $name\$" SHA256SUMS | sha256sum --check --strict -)
		archive=$home/$name
	fi
	tar xzf "$archive" --strip-components=1 -C "$home"
	bin=$home
fi

echo "$bin" >>"$GITHUB_PATH"
echo "program=$bin/coracle" >>"$GITHUB_STATE"
as_root "$bin/coracle" up

exports=$(as_root "$bin/coracle" env)
eval "$exports"
echo "::add-mask::$AWS_SECRET_ACCESS_KEY"
for name in $(printf '%s\n' "$exports" | sed -n 's/^export \([A-Za-z_]*\)=.*/\1/p'); do
	eval "printf '%s=%s\n' $name \"\$$name\"" >>"$GITHUB_ENV"
done
echo "endpoint=$AWS_ENDPOINT_URL" >>"$GITHUB_OUTPUT"
echo "log=${CORACLE_DATA_DIR:-/var/lib/coracle}/serve.log" >>"$GITHUB_OUTPUT"
