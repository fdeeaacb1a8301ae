package catalog_test

import (
	"slices"
	"testing"

	"github.com/coracle-eks/coracle/internal/catalog"
	"github.com/coracle-eks/coracle/internal/host/image"
	"github.com/coracle-eks/coracle/kubernetes"
)

// The images that nodes have anyway are those of the default versions.
func TestDefaultImages(t *testing.T) {
	t.Parallel()
	c, err := catalog.Open(catalog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range kubernetes.Versions() {
		want := image.References("eu-west-1", k.Minor)
		for addon, images := range map[string][]string{
			"vpc-cni": {want[image.VPCCNI], want[image.VPCCNIInit], want[image.NetworkPolicyAgent]},
			"coredns": {want[image.CoreDNS]}, "kube-proxy": {want[image.KubeProxy]},
		} {
			a, _ := c.Addon(addon)
			v, _ := a.Default(k.Minor)
			var got []string
			for _, i := range v.Images("eu-west-1", k.Minor) {
				got = append(got, i.Reference)
			}
			if slices.Sort(images); !slices.Equal(got, images) {
				t.Errorf("%s of Kubernetes %s runs %v, nodes have %v", addon, k.Minor, got, images)
			}
		}
	}
}
