package bootstrap

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

// FuzzParse shows that the options of bootstrap.sh are those that were given: the arguments are the lines of a text.
func FuzzParse(f *testing.F) {
	for _, args := range [][]string{
		{"demo"},
		{"demo", "--kubelet-extra-args", "--node-labels=a=b --register-with-taints=c=d:NoSchedule", "--use-max-pods",
			"false"},
		{"--apiserver-endpoint", "https://ABC.gr7.us-east-1.eks.amazonaws.com", "--b64-cluster-ca", "LS0t", "demo",
			"--dns-cluster-ip", "10.100.0.10"},
		{"demo", "--ip-family", "IPv6", "--service-ipv6-cidr", "fd00::/108"},
		{"demo", "--ip-family", "ipv4", "--service-ipv6-cidr", "fd00::/108"},
		{"demo", "--container-runtime", "dockerd"}, {"demo", "--aws-api-retry-attempts", "x"},
		{"demo", "--unknown", "x"}, {"demo", "--cluster-id"}, {"--cluster-id", "demo"}, {""},
	} {
		f.Add(strings.Join(args, "\n"))
	}
	f.Fuzz(func(t *testing.T, text string) {
		args := strings.Split(text, "\n")
		o, err := parseArgs(args, func(string, ...any) {})
		if err != nil {
			return
		}
		if o.cluster == "" || !slices.Contains(args, o.cluster) {
			t.Fatalf("%q is of the cluster %q", args, o.cluster)
		}
		for name, value := range o.values {
			known := slices.ContainsFunc(flags, func(f struct{ name, help string }) bool { return f.name == name })
			if !known || name != "--ip-family" && !slices.Contains(args, value) {
				t.Fatalf("%q has %s=%q", args, name, value)
			}
		}
		if family := o.values["--ip-family"]; family != "" && family != "ipv4" && family != "ipv6" {
			t.Fatalf("%q has the family %q", args, family)
		}
		if n := o.values["--aws-api-retry-attempts"]; n != "" {
			if _, err := strconv.Atoi(n); err != nil {
				t.Fatalf("%q has %v", args, err)
			}
		}
	})
}
