package importrules

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// TestExpressionsAreMeasured refuses regular expressions that are compiled while the daemon runs, unless the file
// measures them first (internal/regexsize): a short one of a user can ask for a program that takes all memory.
func TestExpressionsAreMeasured(t *testing.T) {
	t.Parallel()
	allowed := map[string]bool{
		"internal/aws/wire/model/pattern": true, // those of AWS's models
		"internal/guest/systemctl":        true, // runs in machines
		"internal/upstream":               true, // a module of the operator's catalog, quoted
	}
	seen := 0
	eachSource(t, []string{"cmd", "internal"}, func(s source) {
		measures := slices.ContainsFunc(s.file.Imports, func(i *ast.ImportSpec) bool {
			return i.Path.Value == `"github.com/coracle-eks/coracle/internal/regexsize"`
		})
		for _, declaration := range s.file.Decls {
			function, ok := declaration.(*ast.FuncDecl)
			if !ok { // variables are compiled at the start
				continue
			}
			ast.Inspect(function, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok || !compilesExpression(call) {
					return true
				}
				seen++
				if !measures && !allowed[s.dir] {
					t.Errorf("%s compiles a regular expression: measure it with internal/regexsize before, or match it without",
						s.files.Position(call.Pos()))
				}
				return true
			})
		}
	})
	if seen == 0 {
		t.Error("no expression is compiled")
	}
}

// compilesExpression reports whether a call compiles a regular expression that is not a text of the source.
func compilesExpression(call *ast.CallExpr) bool {
	function, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	pkg, ok := function.X.(*ast.Ident)
	if !ok || pkg.Name != "regexp" && pkg.Name != "regexp2" {
		return false
	}
	name := strings.TrimPrefix(function.Sel.Name, "Must")
	if !strings.HasPrefix(name, "Compile") && !strings.HasPrefix(name, "Match") || len(call.Args) == 0 {
		return false
	}
	_, literal := call.Args[0].(*ast.BasicLit)
	return !literal
}
