package controlplane

import "testing"

func TestStandardObjectsAreKnown(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		apiVersion, kind, name string
		want                   bool
	}{
		{"storage.k8s.io/v1", "CSIDriver", "efs.csi.aws.com", true},
		{"storage.k8s.io/v1beta1", "CSIDriver", "efs.csi.aws.com", true},
		{"storage.k8s.io/v1", "CSIDriver", "ebs.csi.aws.com", false},
		{"example.com/v1", "CSIDriver", "efs.csi.aws.com", false},
		{"apiextensions.k8s.io/v1", "CustomResourceDefinition", "securitygrouppolicies.vpcresources.k8s.aws", true},
		{"apiextensions.k8s.io/v1", "CustomResourceDefinition", "eniconfigs.crd.k8s.amazonaws.com", false},
		{"rbac.authorization.k8s.io/v1", "Role", "eks:fargate-manager", false}, // it has a namespace
	} {
		if got := IsStandard(c.apiVersion, c.kind, c.name); got != c.want {
			t.Errorf("%s %s of %s: %t", c.kind, c.name, c.apiVersion, got)
		}
	}
}
