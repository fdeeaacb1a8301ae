package nodegroup

import (
	"strings"
	"testing"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/pelletier/go-toml/v2"

	"github.com/coracle-eks/coracle/internal/ami"
)

var booted = boot{
	Cluster: "demo", Endpoint: "https://x.eks.amazonaws.com", Authority: []byte("PEM"), ServiceCIDR: "10.100.0.0/16",
	MaxPods: 29,
	Labels:  map[string]string{"team": "a", groupLabel: "ng"}, Taints: []ekstypes.Taint{
		{Key: ptr("k"), Value: ptr("v"), Effect: ekstypes.TaintEffectNoExecute},
		{Key: ptr("k"), Effect: ekstypes.TaintEffectNoSchedule},
	},
}

const users = "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"==B==\"\n\n--==B==\nContent-Type: " +
	"text/x-shellscript; charset=\"us-ascii\"\n\n#!/bin/bash\necho user\n\n--==B==--\n"

func TestUserData(t *testing.T) {
	t.Parallel()
	six := booted
	six.IPv6, six.ServiceCIDR = true, "fd12:3456::/108"
	for name, c := range map[string]struct {
		boot   boot
		family ami.Family
		users  string
		want   []string // in this order
		fails  string
	}{
		"AL2": {booted, ami.AL2, "", []string{
			"MIME-Version: 1.0\n", "Content-Type: text/x-shellscript; charset=\"us-ascii\"",
			"#!/bin/bash\nset -ex\nB64_CLUSTER_CA=UEVN\nAPI_SERVER_URL=https://x.eks.amazonaws.com\nK8S_CLUSTER_DNS_IP=10.100.0.10\n",
			"/etc/eks/bootstrap.sh demo --kubelet-extra-args '--node-labels=eks.amazonaws.com/nodegroup=ng,team=a " +
				"--register-with-taints=k=v:NoExecute,k=:NoSchedule --max-pods=29' " +
				"--b64-cluster-ca $B64_CLUSTER_CA --apiserver-endpoint $API_SERVER_URL --dns-cluster-ip " +
				"$K8S_CLUSTER_DNS_IP --use-max-pods false\n",
		}, ""},
		"AL2 after the user's": {booted, ami.AL2, users, []string{"echo user", "/etc/eks/bootstrap.sh demo"}, ""},
		"AL2 with IPv6": {six, ami.AL2, "", []string{"DNS_IP=fd12:3456::a",
			"--ip-family ipv6 --service-ipv6-cidr fd12:3456::/108"}, ""},
		"AL2023": {booted, ami.AL2023, "", []string{"Content-Type: application/node.eks.aws",
			"kind: NodeConfig", "cidr: 10.100.0.0/16", "maxPods: 29",
			"- --node-labels=eks.amazonaws.com/nodegroup=ng,team=a",
			"- --register-with-taints=k=v:NoExecute,k=:NoSchedule"}, ""},
		"AL2023 after the user's": {booted, ami.AL2023, users, []string{"echo user", "kind: NodeConfig"}, ""},
		"not MIME": {booted, ami.AL2023, "#!/bin/bash\necho", nil,
			"User data was not in the MIME multipart format."},
		"MIME of one part": {booted, ami.AL2, "MIME-Version: 1.0\nContent-Type: text/plain\n\nx", nil,
			"User data was not in the MIME multipart format."},
		"not TOML": {booted, ami.Bottlerocket, "[settings", nil, "User data was not in the TOML format"},
		"TOML that is too deep": {booted, ami.Bottlerocket, "[a" + strings.Repeat(".a", 200) + "]\n", nil,
			"User data was not in the TOML format: line 1: tables, arrays and dotted keys are nested too deeply"},
	} {
		got, err := c.boot.userData(c.family, []byte(c.users))
		if c.fails != "" {
			if err == nil || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		rest := string(got)
		for _, w := range c.want {
			_, after, found := strings.Cut(rest, w)
			if !found {
				t.Errorf("%s: no %q, where it should be, in\n%s", name, w, got)
				break
			}
			rest = after
		}
	}
}

func TestBottlerocketSettingsAreMerged(t *testing.T) {
	t.Parallel()
	got, err := booted.userData(ami.Bottlerocket,
		[]byte("[settings]\nmotd = \"hi\"\n[settings.kubernetes]\ncluster-name = \"other\"\nmax-pods = "+
			"7\n[settings.kubernetes.node-labels]\nmine = \"yes\"\n[settings.kubernetes.node-taints]\nmine = "+
			"\"x:NoSchedule\"\n"))
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Settings struct {
			MOTD       string `toml:"motd"`
			Kubernetes struct {
				Server  string            `toml:"api-server"`
				Cluster string            `toml:"cluster-name"`
				CA      string            `toml:"cluster-certificate"`
				DNS     string            `toml:"cluster-dns-ip"`
				MaxPods int               `toml:"max-pods"`
				Labels  map[string]string `toml:"node-labels"`
				Taints  map[string]any    `toml:"node-taints"`
			} `toml:"kubernetes"`
		} `toml:"settings"`
	}
	if err := toml.Unmarshal(got, &document); err != nil {
		t.Fatal(err)
	}
	k := document.Settings.Kubernetes
	if document.Settings.MOTD != "hi" || k.Server != booted.Endpoint || k.Cluster != "demo" || k.CA != "UEVN" ||
		k.DNS != "10.100.0.10" || k.MaxPods != 7 ||
		k.Labels["mine"] != "yes" || k.Labels["team"] != "a" || k.Taints["mine"] != "x:NoSchedule" ||
		len(k.Taints["k"].([]any)) != 2 {
		t.Errorf("%s", got)
	}
}
