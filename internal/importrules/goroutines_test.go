package importrules

import (
	"go/ast"
	"strings"
	"testing"
)

// TestGoroutinesDoNotEndTheDaemon refuses calls that start a goroutine whose panic ends the process, in the packages
// that work on what tenants write: use github.com/sourcegraph/conc and internal/recovery.
func TestGoroutinesDoNotEndTheDaemon(t *testing.T) {
	t.Parallel()
	eachSource(t, []string{"internal/controller", "internal/kube", "internal/host/simulated"}, func(s source) {
		if strings.Contains(s.name, "test/") { // what tests share
			return
		}
		refuse := func(n ast.Node, what, instead string) {
			t.Errorf("%s: %s lets a panic end the daemon: use %s", s.files.Position(n.Pos()), what, instead)
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				refuse(n, "a go statement", "conc.WaitGroup")
			case *ast.SelectorExpr:
				x, _ := n.X.(*ast.Ident)
				switch {
				case x != nil && x.Name == "sync" && n.Sel.Name == "WaitGroup":
					refuse(n, "sync.WaitGroup", "conc.WaitGroup")
				case x != nil && x.Name == "errgroup":
					refuse(n, "errgroup", "recovery.Group")
				}
			}
			return true
		})
	})
}
