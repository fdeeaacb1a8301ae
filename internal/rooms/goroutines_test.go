package rooms

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// TestGoroutinesDoNotEndTheDaemon keeps what starts a goroutine whose panic ends the process out of the packages that
// work on what tenants write: use github.com/sourcegraph/conc and internal/recovery.
func TestGoroutinesDoNotEndTheDaemon(t *testing.T) {
	t.Parallel()
	for _, root := range []string{"internal/controller", "internal/kube", "internal/host/simulated"} {
		err := filepath.WalkDir(filepath.Join("../..", root), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
				strings.Contains(path, "test/") { // what tests share
				return err
			}
			files := token.NewFileSet()
			file, err := parser.ParseFile(files, path, nil, 0)
			if err != nil {
				return err
			}
			refuse := func(n ast.Node, what, instead string) {
				t.Errorf("%s: %s lets a panic end the daemon: use %s", files.Position(n.Pos()), what, instead)
			}
			ast.Inspect(file, func(n ast.Node) bool {
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
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
