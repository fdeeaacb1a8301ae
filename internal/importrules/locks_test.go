package importrules

import (
	"go/ast"
	"testing"
)

// TestLocksOfFilesAreTakenInOnePlace allows flock(2), which waits without a limit for any process that can open a file,
// only in the packages that bound the wait and close the file to others: use filelock.Lock, or rundir.Lock for what
// daemons of one host share.
func TestLocksOfFilesAreTakenInOnePlace(t *testing.T) {
	t.Parallel()
	allowed := map[string]bool{
		"internal/filelock": true,
		"internal/datadir":  true, // never waits
		// The locks of a machine's programs; it never waits.
		"internal/host/machine/squash": true,
	}
	eachSource(t, []string{"cmd", "internal"}, func(s source) {
		if allowed[s.dir] {
			return
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if call, ok := n.(*ast.SelectorExpr); ok && call.Sel.Name == "Flock" {
				t.Errorf(
					"%s: use filelock.Lock or rundir.Lock, which end a wait and say who holds the lock",
					s.files.Position(call.Pos()),
				)
			}
			return true
		})
	})
}
