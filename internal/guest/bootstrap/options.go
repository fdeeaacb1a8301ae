// Package bootstrap is /etc/eks/bootstrap.sh of the EKS-optimized Amazon Linux 2 images: it makes the instance a node
// of a cluster.
//
// It writes the kubelet's configuration, kubeconfig and flags where those images have them, and starts containerd and
// the kubelet.
// https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html#mng-specify-custom-ami
package bootstrap

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// options are the flags of bootstrap.sh.
type options struct {
	cluster string
	values  map[string]string // by flag; absent when not given
}

// flags are those of the script, with their help. Each takes a value.
var flags = []struct{ name, help string }{
	{"--apiserver-endpoint",
		`The EKS cluster API Server endpoint. Only valid when used with --b64-cluster-ca. Bypasses calling "aws eks describe-cluster"`},
	{"--aws-api-retry-attempts", "Number of retry attempts for AWS API call (DescribeCluster) (default: 3)"},
	{"--b64-cluster-ca",
		`The base64 encoded cluster CA content. Only valid when used with --apiserver-endpoint. Bypasses calling "aws eks describe-cluster"`},
	{"--cluster-id", "Specify the id of EKS cluster"},
	{"--container-runtime",
		"Specify a container runtime. containerd is the only valid value. This flag is deprecated and will be " +
			"removed in a future release."},
	{"--containerd-config-file", "File containing the containerd configuration to be used in place of AMI defaults."},
	{"--dns-cluster-ip",
		"Overrides the IP address to use for DNS queries within the cluster. Defaults to 10.100.0.10 or 172.20.0.10 " +
			"based on the IP address of the primary interface. (comma separated list)"},
	{"--docker-config-json",
		"The contents of the /etc/docker/daemon.json file. Ignored: it is not relevant to containerd"},
	{"--enable-docker-bridge", "Restores the docker default bridge network. Ignored: it is not relevant to containerd"},
	{"--enable-local-outpost",
		"Enable support for worker nodes to communicate with the local control plane when running on a disconnected " +
			"Outpost. (true or false)"},
	{"--ip-family", "Specify ip family of the cluster"},
	{"--kubelet-extra-args", "Extra arguments to add to the kubelet. Useful for adding labels or taints."},
	{"--local-disks",
		"Setup instance storage NVMe disks in raid0 or mount the individual disks for use by pods <mount | raid0 | " +
			"raid10>"},
	{"--mount-bpf-fs", "Mount a bpffs at /sys/fs/bpf (default: true)"},
	{"--pause-container-account", "The AWS account (number) to pull the pause container from"},
	{"--pause-container-version", "The tag of the pause container"},
	{"--service-ipv4-cidr", "ipv4 cidr range of the cluster"},
	{"--service-ipv6-cidr", "ipv6 cidr range of the cluster"},
	{"--use-max-pods", "Sets --max-pods for the kubelet when true. (default: true)"},
}

func printHelp(w io.Writer) {
	fmt.Fprintln(w,
		"usage: /etc/eks/bootstrap.sh [options] <cluster-name>\nBootstraps an instance into an EKS "+
			"cluster\n\n-h,--help print this help")
	for _, f := range flags {
		fmt.Fprintln(w, f.name, f.help)
	}
}

// parseArgs reads the arguments as the script does: flags anywhere, each followed by its value; the first other word is
// the cluster. Unlike it, a flag that is not known and one without a value are errors: there, one becomes a cluster's
// name and the other ends the script without a word.
func parseArgs(args []string, log func(format string, args ...any)) (options, error) {
	o := options{values: map[string]string{}}
	var words []string
	for i := 0; i < len(args); i++ {
		arg := args[i]
		known := false
		for _, f := range flags {
			known = known || f.name == arg
		}
		switch {
		case known && i+1 == len(args):
			return o, fmt.Errorf("%s needs a value", arg)
		case known:
			i++
			o.values[arg] = args[i]
			log("INFO: %s='%s'", arg, args[i])
		case strings.HasPrefix(arg, "--"):
			return o, fmt.Errorf("unknown option %s; --help lists the options", arg)
		default:
			words = append(words, arg)
		}
	}
	if len(words) == 0 || words[0] == "" {
		return o, fmt.Errorf("cluster name is not defined!")
	}
	o.cluster = words[0]
	if f := strings.ToLower(o.values["--ip-family"]); f != "" {
		if f != "ipv4" && f != "ipv6" {
			return o, fmt.Errorf("Invalid --ip-family. Only ipv4 or ipv6 are allowed")
		}
		o.values["--ip-family"] = f
	}
	if o.values["--service-ipv6-cidr"] != "" {
		if o.values["--ip-family"] == "ipv4" {
			return o, fmt.Errorf("--ip-family should be ipv6 when --service-ipv6-cidr is specified")
		}
		o.values["--ip-family"] = "ipv6"
	}
	if r := o.values["--container-runtime"]; r != "" && r != "containerd" {
		return o, fmt.Errorf("containerd is the only supported container runtime as of Kubernetes version 1.24")
	}
	if n := o.values["--aws-api-retry-attempts"]; n != "" {
		if _, err := strconv.Atoi(n); err != nil {
			return o, fmt.Errorf("--aws-api-retry-attempts is not a number: %s", n)
		}
	}
	return o, nil
}
