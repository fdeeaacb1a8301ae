package fargate

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/coracle-eks/coracle/internal/record"
)

func TestMatches(t *testing.T) {
	t.Parallel()
	type labels = map[string]string
	for _, test := range []struct {
		name      string
		selector  record.FargateSelector
		namespace string
		labels    labels
		want      bool
	}{
		{"namespace", record.FargateSelector{Namespace: "fargate"}, "fargate", nil, true},
		{"another namespace", record.FargateSelector{Namespace: "fargate"}, "fargate-2", nil, false},
		{"prefix", record.FargateSelector{Namespace: "prod*"}, "production", nil, true},
		{"prefix that is all", record.FargateSelector{Namespace: "prod*"}, "prod", nil, true},
		{"suffix", record.FargateSelector{Namespace: "*-prod"}, "shop-prod", nil, true},
		{"suffix of something else", record.FargateSelector{Namespace: "*-prod"}, "shop-prod-2", nil, false},
		{"middle", record.FargateSelector{Namespace: "a*b*c"}, "abbbcbc", nil, true},
		{"middle without an end", record.FargateSelector{Namespace: "a*b*c"}, "abbbcb", nil, false},
		{"one character", record.FargateSelector{Namespace: "prod?"}, "prod1", nil, true},
		{"one character that is missing", record.FargateSelector{Namespace: "prod?"}, "prod", nil, false},
		{"one character of two", record.FargateSelector{Namespace: "prod?"}, "prod12", nil, false},
		{"everything", record.FargateSelector{Namespace: "*"}, "default", nil, true},
		{"no pattern", record.FargateSelector{}, "default", nil, false},

		{"label", record.FargateSelector{Namespace: "n", Labels: labels{"app": "web"}}, "n",
			labels{"app": "web", "tier": "front"}, true},
		{"label with another value", record.FargateSelector{Namespace: "n", Labels: labels{"app": "web"}}, "n",
			labels{"app": "db"}, false},
		{"missing label", record.FargateSelector{Namespace: "n", Labels: labels{"app": "web"}}, "n", nil, false},
		{"one of two labels", record.FargateSelector{Namespace: "n", Labels: labels{"app": "web", "tier": "front"}},
			"n", labels{"app": "web"}, false},
		{"empty value", record.FargateSelector{Namespace: "n", Labels: labels{"app": ""}}, "n", labels{"app": ""}, true},
		{"empty value of a missing label", record.FargateSelector{Namespace: "n", Labels: labels{"app": ""}}, "n", nil,
			false},
		{"value with a wildcard", record.FargateSelector{Namespace: "n", Labels: labels{"app": "web-*"}}, "n",
			labels{"app": "web-1"}, true},
		{"key with a wildcard", record.FargateSelector{Namespace: "n", Labels: labels{"example.com/*": "yes"}}, "n",
			labels{"example.com/a": "no", "example.com/b": "yes"}, true},
		{"key with a wildcard and no such value", record.FargateSelector{Namespace: "n",
			Labels: labels{"example.com/*": "yes"}}, "n", labels{"example.com/a": "no", "other/b": "yes"}, false},
		{"key with one character", record.FargateSelector{Namespace: "n", Labels: labels{"zone?": "?"}}, "n",
			labels{"zone1": "a"}, true},
		{"labels in another namespace", record.FargateSelector{Namespace: "n", Labels: labels{"app": "web"}}, "m",
			labels{"app": "web"}, false},
	} {
		profile := record.FargateProfile{Selectors: []record.FargateSelector{test.selector}}
		if got := SelectedBy(profile, test.namespace, test.labels); got != test.want {
			t.Errorf("%s: matches is %t", test.name, got)
		}
	}
}

func TestSelect(t *testing.T) {
	t.Parallel()
	profile := func(name string, selectors ...record.FargateSelector) record.FargateProfile {
		return record.FargateProfile{Name: name, Selectors: selectors}
	}
	profiles := []record.FargateProfile{
		profile("web", record.FargateSelector{Namespace: "shop"}, record.FargateSelector{Namespace: "blog"}),
		profile("all", record.FargateSelector{Namespace: "shop", Labels: map[string]string{"app": "*"}}),
		profile("dns", record.FargateSelector{Namespace: "kube-system", Labels: map[string]string{"k8s-app": "kube-dns"}}),
		profile("Batch", record.FargateSelector{Namespace: "jobs-*"}),
		profile("batch", record.FargateSelector{Namespace: "jobs-?"}),
	}
	for _, test := range []struct {
		name                string
		namespace           string
		labels, annotations map[string]string
		want                string
	}{
		{"one profile", "blog", nil, nil, "web"},
		{"the first of two by name", "shop", map[string]string{"app": "cart"}, nil, "all"},
		{"only one of two has the labels", "shop", nil, nil, "web"},
		{"chosen by a label", "shop", map[string]string{"app": "cart", ProfileLabel: "web"}, nil, "web"},
		{"chosen, but does not match", "blog", map[string]string{ProfileLabel: "all"}, nil, "web"},
		{"chosen, but does not exist", "blog", map[string]string{ProfileLabel: "none"}, nil, "web"},
		{"chosen, but nothing matches", "default", map[string]string{ProfileLabel: "web"}, nil, ""},
		{"upper case is before lower case", "jobs-1", nil, nil, "Batch"},
		{"kept on EC2", "blog", nil, map[string]string{ComputeType: "ec2"}, ""},
		{"kept on EC2, although chosen", "blog", map[string]string{ProfileLabel: "web"},
			map[string]string{ComputeType: "ec2"}, ""},
		{"not kept on EC2", "blog", nil, map[string]string{ComputeType: "fargate"}, "web"},
		{"CoreDNS", "kube-system", map[string]string{"k8s-app": "kube-dns"}, nil, "dns"},
		{"others of kube-system", "kube-system", map[string]string{"k8s-app": "aws-node"}, nil, ""},
	} {
		if got := Select(profiles, test.namespace, test.labels, test.annotations); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
	if got := Select(nil, "default", nil, nil); got != "" {
		t.Errorf("without profiles: %q", got)
	}
}

func TestIsDaemon(t *testing.T) {
	t.Parallel()
	if IsDaemon([]metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet"}}) {
		t.Error("a pod of a ReplicaSet counts as a DaemonSet's")
	}
	if !IsDaemon([]metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "A"},
		{APIVersion: "apps/v1", Kind: "DaemonSet"}}) {
		t.Error("a pod of a DaemonSet does not count as one")
	}
}
