package securitygrouppolicy

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPoliciesSelectPods(t *testing.T) {
	t.Parallel()
	pod, account := map[string]string{"app": "web"}, map[string]string{"team": "shop"}
	labels := func(key, value string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
	}
	for name, c := range map[string]struct {
		pods, accounts *metav1.LabelSelector
		want           bool
	}{
		"nothing":             {nil, nil, false},
		"all pods":            {&metav1.LabelSelector{}, nil, true},
		"the pod":             {labels("app", "web"), nil, true},
		"another pod":         {labels("app", "db"), nil, false},
		"the service account": {nil, labels("team", "shop"), true},
		"another account":     {nil, labels("team", "ops"), false},
		"both":                {labels("app", "web"), labels("team", "shop"), true},
		"one of both":         {labels("app", "web"), labels("team", "ops"), false},
	} {
		if got := (Policy{Pods: c.pods, ServiceAccounts: c.accounts}).Selects(pod, account); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
