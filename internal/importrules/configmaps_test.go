package importrules

import (
	"go/ast"
	"testing"
)

// configMapReaders are the declarations that read ConfigMaps of clusters, and why what they do with the content takes
// little. Their users' programs may answer instead of the API server, with up to 32 MiB.
var configMapReaders = map[string]string{
	"internal/kube/awsauth/client.go NewClient":             "check refuses more than a ConfigMap has",
	"internal/controller/networkpolicy/watch.go follow":     "one value is compared, and nothing of it is kept",
	"internal/controller/vpcresource/watch.go followConfig": "one number is read, and nothing of it is kept",
	"internal/controller/fargate/provision.go annotatePod":  "fluentbit.Validate begins with the size",
	"internal/kube/apiservertest/refusal.go KeepAWSAuth":    "a part of tests, which makes one",
}

// TestConfigMapsAreReadWithinBounds requires that whoever reads a ConfigMap is named here. What is in aws-auth is read
// by package awsauth.
func TestConfigMapsAreReadWithinBounds(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	eachSource(t, []string{"cmd", "internal"}, func(s source) {
		for _, declaration := range s.file.Decls {
			ast.Inspect(declaration, func(n ast.Node) bool {
				if call, ok := n.(*ast.SelectorExpr); ok && call.Sel.Name == "ConfigMaps" {
					at := placeOf(declaration, s.name)
					used[at] = true
					if configMapReaders[at] == "" {
						t.Errorf("%s reads a ConfigMap: use package awsauth, or name it here and say what bounds the content", at)
					}
				}
				return true
			})
		}
	})
	for at := range configMapReaders {
		if !used[at] {
			t.Errorf("%s reads no ConfigMap", at)
		}
	}
}
