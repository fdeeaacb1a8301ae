# Runs as a unit of systemd, at each boot: what a user of the package does, which install and remove stand for. The daemon
# is root of a container in which no machine can be made.
set -eu
aws() { command aws --endpoint-url "$AWS_ENDPOINT_URL" "$@"; } # that of Debian 12 does not know the variable
serves() { until coracle status >/dev/null 2>&1; do systemctl is-active --quiet coracle; sleep 0.2; done; }
kubernetes() { pgrep -f -l '/kube kube-' | sort; }

if [ ! -e /booted-before ]; then
	touch /booted-before
	install
	systemctl is-enabled coracle
	echo CORACLE_MACHINES=simulated >>/etc/default/coracle
	systemctl start coracle
	serves
	eval "$(coracle env)"
	role=$(aws iam create-role --role-name eks --query Role.Arn --output text --assume-role-policy-document '{
		"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"sts:AssumeRole",
		"Principal":{"Service":"eks.amazonaws.com"}}]}')
	subnets=$(aws ec2 describe-subnets --query 'sort_by(Subnets, &AvailabilityZone)[0:2].SubnetId' --output text)
	aws eks create-cluster --name it --role-arn "$role" --resources-vpc-config "subnetIds=$(tr '\t' , <<<"$subnets")"
	aws eks wait cluster-active --name it

	before=$(kubernetes)
	systemctl restart coracle
	serves
	aws eks wait cluster-active --name it
	[ "$before" = "$(kubernetes)" ]
	echo "the cluster outlived the daemon: $before"
	python3 -m pytest -p no:cacheprovider /examples/python
	systemctl reboot
	exit
fi

serves
eval "$(coracle env)"
aws eks wait cluster-active --name it
kubectl=$(echo /usr/lib/coracle/bundles/v*/kube)
aws eks update-kubeconfig --name it
"$kubectl" kubectl get namespace kube-system
echo "the cluster outlived the boot"

remove
[ -z "$(kubernetes)" ]
[ -d /var/lib/coracle ]
echo "the package is removed"
systemctl poweroff
