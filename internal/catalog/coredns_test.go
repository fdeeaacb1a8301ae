package catalog

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// The pods of CoreDNS are annotated with the compute type that its configuration says. Without one nothing keeps them
// off Fargate.
// https://docs.aws.amazon.com/eks/latest/userguide/fargate-getting-started.html
func TestComputeTypeOfCoreDNS(t *testing.T) {
	t.Parallel()
	for config, want := range map[string]string{
		"": "", `{"computeType":"Fargate"}`: "Fargate", "computeType: ec2": "ec2",
	} {
		for _, a := range open(t).Addons() {
			if a.Name != "coredns" {
				continue
			}
			for _, v := range a.Versions {
				if err := v.Check(t.Context(), config); err != nil {
					t.Fatalf("%s: %v", config, err)
				}
				s := exampleOptions(v.Compatibilities[0].Minor)
				s.Config.Configuration = config
				objects, err := v.Render(s)
				if err != nil {
					t.Fatal(err)
				}
				found := false
				for _, o := range objects {
					if o.GetKind() != "Deployment" {
						continue
					}
					got, _, err := unstructured.NestedString(o.Object, "spec", "template", "metadata", "annotations",
						"eks.amazonaws.com/compute-type")
					if found = true; got != want || err != nil {
						t.Errorf("%s with %q: compute type %q, %v", v.Version, config, got, err)
					}
				}
				if !found {
					t.Errorf("%s has no Deployment", v.Version)
				}
			}
		}
	}
}
