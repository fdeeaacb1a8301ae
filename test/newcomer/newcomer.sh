# What somebody does who has just installed Debian with Go, git and make: the commands of the README.
set -eu
cd /
git clone -q /clone /src
cd /src
make up
trap 'coracle reset --yes' EXIT
export PATH=$PWD/bin:$PWD/bin/tools:$PATH
coracle doctor | tee /tmp/doctor
if grep '^fail' /tmp/doctor; then
	exit 1
fi
eval "$(coracle env)"
aws sts get-caller-identity --query Account --output text
aws eks describe-cluster-versions --query 'clusterVersions[].clusterVersion' --output text
coracle demo
# What make up has installed is all that the host needs.
for program in runc iptables nft conntrack; do
	if command -v "$program"; then
		echo "make up has installed $program"
		exit 1
	fi
done
