package importrules

import (
	"go/ast"
	"testing"
)

// TestOnlyNamedPlacesReadUnmetered requires a reason for each use of store.Unmetered: whoever lets one request read
// what nobody counts lets it take the daemon's memory.
func TestOnlyNamedPlacesReadUnmetered(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	eachSource(t, []string{"cmd", "internal"}, func(s source) {
		for _, declaration := range s.file.Decls {
			at := s.name
			function, ok := declaration.(*ast.FuncDecl)
			if ok {
				at += " " + function.Name.Name
			}
			ast.Inspect(declaration, func(n ast.Node) bool {
				name, ok := n.(*ast.Ident)
				if !ok || name.Name != "Unmetered" || function != nil && name == function.Name ||
					s.dir == "internal/importrules" {
					return true
				}
				if _, named := Unmetered[at]; !named {
					t.Errorf("%s reads what no account is charged for: count rows, or name the place in "+
						"internal/importrules and say why there are few small ones", at)
				}
				used[at] = true
				return true
			})
		}
	})
	for name := range Unmetered {
		if !used[name] {
			t.Errorf("the table has %s, which has all of its reads charged", name)
		}
	}
}
