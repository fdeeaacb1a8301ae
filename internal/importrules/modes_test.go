package importrules

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// elsewhere are the directories whose files are for others, or are not the daemon's.
var elsewhere = map[string]string{
	"cmd/csi":        "runs in pods",
	"cmd/node":       "runs in machines",
	"cmd/runc":       "runs in machines",
	"internal/guest": "makes and runs in root file systems of machines, whose users are the machine's own",
	"internal/host/machine": "makes root file systems and cgroups of machines; on the host they are in " +
		"a directory that is closed (test/secrets)",
	"internal/kube/apiservertest": "is part of tests",
	"internal/store/storetest":    "is part of tests",
}

// openers are the functions that make files and directories, with the position of the mode among their arguments; -1:
// they choose one that is open to others.
var openers = map[string]int{
	"os.WriteFile": 2, "os.OpenFile": 2, "os.Mkdir": 1, "os.MkdirAll": 1, "os.Chmod": 1, "os.Create": -1,
	"unix.Mkdir": 1, "unix.Open": 2, "unix.Chmod": 1, "unix.Mkfifo": 1, "syscall.Mkdir": 1, "syscall.Open": 2,
	"syscall.Mkfifo": 1,
}

var reason = regexp.MustCompile(`(?i)\bopen to others[:,] \S`)

// TestWhatIsOpenToOthersSaysWhy requires that files are created with mode 0600, and directories with mode 0700. Where
// other users need them, a comment beside the call, or in the line before it, names these users: "open to others: ...".
func TestWhatIsOpenToOthersSaysWhy(t *testing.T) {
	t.Parallel()
	seen := 0
	eachSource(t, []string{"cmd", "internal"}, func(s source) {
		for dir := range elsewhere {
			if isWithinPath(s.dir, dir) {
				return
			}
		}
		said := map[int]bool{} // by line
		for _, group := range s.file.Comments {
			if reason.MatchString(strings.Join(strings.Fields(group.Text()), " ")) {
				said[s.files.Position(group.End()).Line] = true
			}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			open, calls := opensToOthers(call)
			if calls {
				seen++
			}
			if !open {
				return true
			}
			lines := []int{s.files.Position(call.Pos()).Line - 1, s.files.Position(call.Pos()).Line,
				s.files.Position(call.End()).Line}
			if !slices.ContainsFunc(lines, func(line int) bool { return said[line] }) {
				t.Errorf("%s: it lets others in: use 0600 or 0700, or say who needs it (\"open to others: ...\")",
					s.files.Position(call.Pos()))
			}
			return true
		})
	})
	if seen < 50 {
		t.Errorf("only %d calls were seen", seen)
	}
}

// opensToOthers reports whether a call makes a file or directory, and whether its mode is a number that lets others in.
func opensToOthers(call *ast.CallExpr) (open, makes bool) {
	function, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false, false
	}
	pkg, ok := function.X.(*ast.Ident)
	if !ok {
		return false, false
	}
	at, makes := openers[pkg.Name+"."+function.Sel.Name]
	if !makes || at < 0 {
		return makes, makes
	}
	literal, ok := call.Args[at].(*ast.BasicLit)
	if !ok || literal.Kind != token.INT {
		return false, true
	}
	mode, err := strconv.ParseUint(literal.Value, 0, 32)
	return err != nil || mode&0o077 != 0, true
}
