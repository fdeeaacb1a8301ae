package importrules

import (
	"go/ast"
	"testing"
)

// awsAuthParsers are the declarations that parse an aws-auth, and in whose turn they do: what parsing one takes is
// bounded, how many are parsed at a time has to be, too.
var awsAuthParsers = map[string]string{
	"internal/kube/authenticator/watch.go setAWSAuth":     "awsauth.Client.Follow calls it",
	"internal/kube/authenticator/validate.go parseInTurn": "awsauth.Pace.InTurn calls it",
	"internal/controller/nodegroup/awsauth.go followAuth": "awsauth.Client.Follow calls it",
	"internal/kube/awsauth/client.go Maps":                "awsauth.Client.parse calls it",
}

// TestAWSAuthIsParsedInTurns requires that whoever parses an aws-auth is named here.
func TestAWSAuthIsParsedInTurns(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	eachSource(t, []string{"cmd", "internal"}, func(s source) {
		for _, declaration := range s.file.Decls {
			ast.Inspect(declaration, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				name, _ := call.Fun.(*ast.Ident)
				if selector, ok := call.Fun.(*ast.SelectorExpr); ok {
					name = selector.Sel
				}
				if name != nil && (name.Name == "parseAWSAuth" || name.Name == "ParseRoles") {
					at := placeOf(declaration, s.name)
					used[at] = true
					if awsAuthParsers[at] == "" {
						t.Errorf("%s parses an aws-auth: do so in a turn of package awsauth, and name it here", at)
					}
				}
				return true
			})
		}
	})
	for at := range awsAuthParsers {
		if !used[at] {
			t.Errorf("%s parses no aws-auth", at)
		}
	}
}
