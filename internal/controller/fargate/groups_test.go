package fargate_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/coracle-eks/coracle/internal/record"
)

// TestPodsHaveSecurityGroupsOfTheirOwn has policies in a cluster that knows the kind.
func TestPodsHaveSecurityGroupsOfTheirOwn(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	objects := must(dynamic.NewForConfig(w.server.Config("admin", "system:masters")))(t)
	definitions := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1",
		Resource: "customresourcedefinitions"}
	must(objects.Resource(definitions).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "securitygrouppolicies.vpcresources.k8s.aws"},
		"spec": map[string]any{
			"group": "vpcresources.k8s.aws", "scope": "Namespaced",
			"names": map[string]any{"kind": "SecurityGroupPolicy", "listKind": "SecurityGroupPolicyList",
				"plural": "securitygrouppolicies", "singular": "securitygrouppolicy"},
			"versions": []any{map[string]any{"name": "v1beta1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object",
					"x-kubernetes-preserve-unknown-fields": true}}}},
		},
	}}, metav1.CreateOptions{}))(t)
	w.active("fargate")
	policies := objects.Resource(schema.GroupVersionResource{Group: "vpcresources.k8s.aws", Version: "v1beta1",
		Resource: "securitygrouppolicies"}).Namespace("fargate")
	for name, group := range map[string]string{"web": "sg-web", "wrong": "sg-unknown",
		"long": "sg-unknown" + strings.Repeat("a", 1<<16)} {
		w.until("policies are served", func() error {
			_, err := policies.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "vpcresources.k8s.aws/v1beta1", "kind": "SecurityGroupPolicy",
				"metadata": map[string]any{"name": name},
				"spec": map[string]any{
					"podSelector":    map[string]any{"matchLabels": map[string]any{"app": name}},
					"securityGroups": map[string]any{"groupIds": []any{group}},
				},
			}}, metav1.CreateOptions{})
			if apierrors.IsAlreadyExists(err) {
				err = nil
			}
			return err
		})
	}
	for name, want := range map[string]string{"web": "sg-web", "other": "sg-cluster"} {
		_, row := w.runs(w.pod("fargate", name))
		eni := must(record.NetworkInterfaces(w.store).Get(t.Context(), record.EC2Key(account, region,
			row.NetworkInterfaceID)))(t).Value
		if !slices.Equal(eni.SecurityGroupIDs, []string{want}) {
			t.Errorf("%s has %v, want %s", name, eni.SecurityGroupIDs, want)
		}
	}
	w.tells(w.pod("fargate", "wrong"), "FailedScheduling: The security group 'sg-unknown' does not exist")
	w.tells(w.pod("fargate", "long"), "FailedScheduling: The security group 'sg-unknown"+strings.Repeat("a", 54)+
		"' does not exist") // no more is kept of an ID

	// Settings of the log router.
	core := w.kube.CoreV1()
	must(core.Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "aws-observability",
		Labels: map[string]string{"aws-observability": "enabled"}}}, metav1.CreateOptions{}))(t)
	must(core.ConfigMaps("aws-observability").Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "aws-logging"},
		Data: map[string]string{"output.conf": "[OUTPUT]\n    Name cloudwatch_logs\n    Match *\n    region eu-west-1\n" +
			"    log_group_name pods\n    log_stream_prefix from-\n    auto_create_group true\n"},
	}, metav1.CreateOptions{}))(t)
	pod, row := w.runs(w.pod("fargate", "logged"))
	if pod.Annotations["Logging"] != "LoggingEnabled" {
		t.Errorf("the annotations are %v", pod.Annotations)
	}
	w.tells(pod, "LoggingEnabled: Successfully enabled logging for pod")
	instance := must(record.Instances(w.store).Get(t.Context(), record.EC2Key(account, region, row.InstanceID)))(t).Value
	if config := string(instance.Fargate.NodeConfig); !containsAll(config, `"podName":"logged"`, "cloudwatch_logs",
		`"podLabels":{"app":"logged"`) {
		t.Errorf("its node is to have %s", config)
	}
}

func containsAll(text string, parts ...string) bool {
	return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(text, part) })
}
