package addon

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/coracle-eks/coracle/internal/record"
)

var images = map[string]string{
	"a": "602401143452.dkr.ecr.eu-west-1.amazonaws.com/amazon-k8s-cni-init:v1.23.2-eksbuild.1",
	"b": "602401143452.dkr.ecr.eu-west-1.amazonaws.com/amazon-k8s-cni:v1.23.2-eksbuild.1",
	"c": "602401143452.dkr.ecr.eu-west-1.amazonaws.com/eks/kube-proxy:v1.35.0-minimal-eksbuild.1",
	"d": "602401143452.dkr.ecr.eu-west-1.amazonaws.com/eks/coredns:v1.14.2-eksbuild.1",
}

const endpoint = "https://0123456789ABCDEF0123456789ABCDEF.gr7.eu-west-1.eks.amazonaws.com"

func cluster() record.Cluster {
	return record.Cluster{
		Account: "111122223333", Region: "eu-west-1", Name: "demo", ID: "0123456789ABCDEF0123456789ABCDEF", Version: "1.35", VPCID: "vpc-1",
		IPFamily: ekstypes.IpFamilyIpv4, ServiceIPv4CIDR: "10.100.0.0/16", BootstrapSelfManagedAddons: true,
	}
}

func TestManifests(t *testing.T) {
	t.Parallel()
	six := cluster()
	six.IPFamily, six.ServiceIPv4CIDR, six.ServiceIPv6CIDR = ekstypes.IpFamilyIpv6, "", "fd30:1c53:5f8a::/108"
	agent := map[string]string{"e": "602401143452.dkr.ecr.eu-west-1.amazonaws.com/amazon/aws-network-policy-agent:v1.4.2-eksbuild.1"}
	for k, v := range images {
		agent[k] = v
	}
	for name, c := range map[string]struct {
		cluster              record.Cluster
		images               map[string]string
		dns, bind            string
		containers           int
		ipv4, ipv6, prefixes string
	}{
		"IPv4":       {cluster(), images, "10.100.0.10", "bindAddress: 0.0.0.0", 1, "true", "false", "false"},
		"IPv6":       {six, images, "fd30:1c53:5f8a::a", `bindAddress: "::"`, 1, "false", "true", "true"},
		"node agent": {cluster(), agent, "10.100.0.10", "bindAddress: 0.0.0.0", 2, "true", "false", "false"},
	} {
		objects, err := Manifests(c.cluster, endpoint, c.images)
		if err != nil {
			t.Fatal(name, err)
		}
		if got := get[corev1.Service](t, objects, "Service", "kube-dns").Spec.ClusterIP; got != c.dns {
			t.Errorf("%s: DNS address %s, want %s", name, got, c.dns)
		}
		if got := get[corev1.ConfigMap](t, objects, "ConfigMap", "kube-proxy-config").Data["config"]; !strings.Contains(got, c.bind+"\n") {
			t.Errorf("%s: kube-proxy's configuration is\n%s", name, got)
		}
		if got := get[corev1.ConfigMap](t, objects, "ConfigMap", "kube-proxy").Data["kubeconfig"]; !strings.Contains(got, "server: "+strings.ToLower(endpoint)+"\n") {
			t.Errorf("%s: kube-proxy's kubeconfig is\n%s", name, got)
		}
		node := get[appsv1.DaemonSet](t, objects, "DaemonSet", "aws-node").Spec.Template.Spec
		if len(node.Containers) != c.containers {
			t.Errorf("%s: %d containers", name, len(node.Containers))
		}
		env := map[string]string{}
		for _, e := range node.Containers[0].Env {
			env[e.Name] = e.Value
		}
		for k, want := range map[string]string{
			"ENABLE_IPv4": c.ipv4, "ENABLE_IPv6": c.ipv6, "ENABLE_PREFIX_DELEGATION": c.prefixes, "WARM_ENI_TARGET": "1",
			"VPC_ID": "vpc-1", "CLUSTER_NAME": "demo", "VPC_CNI_VERSION": "v1.23.2", "ANNOTATE_POD_IP": "false",
		} {
			if env[k] != want {
				t.Errorf("%s: %s is %q, want %q", name, k, env[k], want)
			}
		}
		if node.InitContainers[0].Image != images["a"] || node.Containers[0].Image != images["b"] {
			t.Errorf("%s: images %s, %s", name, node.InitContainers[0].Image, node.Containers[0].Image)
		}
	}
	if _, err := Manifests(cluster(), endpoint, map[string]string{"pause": "host/eks/pause:3.10"}); err == nil || !strings.Contains(err.Error(), "there is no image") {
		t.Errorf("without images: %v", err)
	}
}

// get is an object in its Go type, every field of which must be known there.
func get[T any](t *testing.T, objects []*unstructured.Unstructured, kind, name string) T {
	t.Helper()
	var out T
	for _, o := range objects {
		if o.GetKind() == kind && o.GetName() == name {
			if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, &out, true); err != nil {
				t.Fatalf("%s %s: %v", kind, name, err)
			}
			return out
		}
	}
	t.Fatalf("there is no %s %s", kind, name)
	return out
}

func TestAnnotated(t *testing.T) {
	t.Parallel()
	for _, annotations := range []string{``, `"annotations":{"a":"b"},`} {
		o := &unstructured.Unstructured{}
		if err := o.UnmarshalJSON([]byte(fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{%s"name":"x"}}`, annotations))); err != nil {
			t.Fatal(err)
		}
		b, err := annotated(o)
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Metadata struct{ Annotations map[string]string }
		}
		if err := json.Unmarshal(b, &got); err != nil {
			t.Fatal(err)
		}
		if annotations == "" {
			annotations = `"annotations":{},`
		}
		want := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{%s"name":"x"}}`, annotations) + "\n"
		if got.Metadata.Annotations[lastApplied] != want {
			t.Errorf("note %q, want %q", got.Metadata.Annotations[lastApplied], want)
		}
	}
}
