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

// TestLocksOfFilesAreTakenInOnePlace keeps flock(2), which waits without a limit for whoever can open a file, in the
// packages that bound the wait and close the file to others: use filelock.Lock, or rundir.Lock for what daemons of one
// host share.
func TestLocksOfFilesAreTakenInOnePlace(t *testing.T) {
	t.Parallel()
	allowed := map[string]bool{
		"internal/filelock": true,
		"internal/datadir":  true, // never waits
	}
	for _, root := range []string{"cmd", "internal"} {
		err := filepath.WalkDir(filepath.Join("../..", root), func(path string, d fs.DirEntry, err error) error {
			dir := filepath.ToSlash(strings.TrimPrefix(filepath.Dir(path), "../../"))
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
				allowed[dir] {
				return err
			}
			files := token.NewFileSet()
			file, err := parser.ParseFile(files, path, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "Flock" {
					t.Errorf(
						"%s: use filelock.Lock or rundir.Lock, which end a wait and say who holds the lock",
						files.Position(s.Pos()),
					)
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
