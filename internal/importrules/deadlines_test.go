package importrules

import (
	"go/ast"
	"testing"
)

// TestPassesOverClustersHaveADeadline requires a Timeout of each controller in the packages that ask the API servers of
// clusters: their users decide when these answer.
func TestPassesOverClustersHaveADeadline(t *testing.T) {
	t.Parallel()
	asks, without := map[string]bool{}, map[string][]string{} // by directory
	eachSource(t, []string{"internal/controller"}, func(s source) {
		for _, i := range s.file.Imports {
			if i.Path.Value == `"github.com/coracle-eks/coracle/internal/kube/client"` {
				asks[s.dir] = true
			}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			literal, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			fields := map[string]bool{}
			for _, element := range literal.Elts {
				if field, ok := element.(*ast.KeyValueExpr); ok {
					if name, ok := field.Key.(*ast.Ident); ok {
						fields[name.Name] = true
					}
				}
			}
			if fields["AccountWorkers"] && !fields["Timeout"] {
				without[s.dir] = append(without[s.dir], s.files.Position(n.Pos()).String())
			}
			return true
		})
	})
	if len(asks) < 3 {
		t.Errorf("only %d packages ask API servers", len(asks))
	}
	for dir, at := range without {
		if asks[dir] {
			t.Errorf("%s: the passes of a controller have no Timeout", at)
		}
	}
}
