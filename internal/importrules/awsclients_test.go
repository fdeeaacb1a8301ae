package importrules

import (
	"go/ast"
	"slices"
	"testing"
)

// TestClientsOfTestsCopyBodies has tests make clients of the SDK with the HTTPClient of test/awsclient, or one without
// a network: with the SDK's own, a request fails now and then on a busy host, as is said there.
func TestClientsOfTestsCopyBodies(t *testing.T) {
	t.Parallel()
	eachFile(t, []string{"internal", "cmd", "test"}, func(s source) {
		if !slices.ContainsFunc(s.file.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"testing"` }) {
			return
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			literal, ok := n.(*ast.CompositeLit)
			if ok && hasKey(literal, "BaseEndpoint") && !hasKey(literal, "HTTPClient") {
				t.Errorf("%s:%d: a client of the SDK without HTTPClient", s.name, s.files.Position(literal.Pos()).Line)
			}
			return true
		})
	})
}

// hasKey reports whether a literal of a struct sets a field.
func hasKey(literal *ast.CompositeLit, name string) bool {
	return slices.ContainsFunc(literal.Elts, func(e ast.Expr) bool {
		pair, ok := e.(*ast.KeyValueExpr)
		if !ok {
			return false
		}
		key, ok := pair.Key.(*ast.Ident)
		return ok && key.Name == name
	})
}
