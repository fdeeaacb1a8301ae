package importrules

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// cutters are the functions that return the beginning of a text, and others that return nothing of it: what is inside
// their parentheses is not kept.
var cutters = []string{"Reason", "Cut", "cutMessage", "oneLine", "shorten", "bound", "newProblem",
	"recordLaunchFailure", "recordRefusal", "recordBootResult", "endFailed", "warn", "Contains", "HasPrefix", "panic"}

// uncut are the declarations that have the text of an error without cutting it themselves, and why what is kept of it
// is bounded.
var uncut = map[string]string{
	"internal/controller/addon/images.go requestImages":      "provideImages cuts them",
	"internal/controller/controlplane/client.go lastError":   "crashError cuts it",
	"internal/controller/nodegroup/awsauth.go malformed":     "issues.add cuts it",
	"internal/controller/nodegroup/health.go checkHealth":    "issues.add cuts it",
	"internal/controller/nodegroup/template.go templateData": "issues.add cuts it",
	"internal/controller/stack/drift.go detectDrift":         "they are cut together",
	"internal/controller/stack/forward.go advance":           "recordRefusal cuts it",
	"internal/controller/stack/forward.go finishForward":     "enter cuts it",
	"internal/controller/stack/forward.go forward":           "enter cuts it",
	"internal/controller/stack/operation.go run":             "enter cuts it",
	"internal/host/balancer/health.go explain":               "a number",
	"internal/host/endpoint/egress.go serveConnection":       "an answer to an API server, on one line",
	"internal/host/endpoint/serve.go applyConfig":            "why the kernel opens no listener",
	"internal/host/endpoint/serve.go reloadConfig":           "why a file of the daemon cannot be read",
	"internal/host/mounttarget/decide.go decide":             "a message of EFS, for a machine",
}

// aboutErrors matches the names of variables that are errors.
var aboutErrors = regexp.MustCompile(`^(err|failure|wrong|cause|refusal|full)$`)

// textsOfErrors returns the places of a file in which the text of an error is made, as uncut calls them, that do not
// cut it.
func textsOfErrors(file *ast.File, name string) (found []string) {
	for _, declaration := range file.Decls {
		if f, ok := declaration.(*ast.FuncDecl); ok && f.Recv != nil && f.Name.Name == "Error" {
			continue // it is an error itself
		}
		var around []ast.Node
		ast.Inspect(declaration, func(n ast.Node) bool {
			if n == nil {
				around = around[:len(around)-1]
				return true
			}
			if call, ok := n.(*ast.CallExpr); ok && isTextOfError(call) && !slices.ContainsFunc(around, isCutter) {
				found = append(found, placeOf(declaration, name))
			}
			around = append(around, n)
			return true
		})
	}
	return found
}

func isTextOfError(call *ast.CallExpr) bool {
	s, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	if s.Sel.Name == "Error" && len(call.Args) == 0 {
		return true
	}
	x, _ := s.X.(*ast.Ident)
	return x != nil && x.Name == "fmt" && strings.HasPrefix(s.Sel.Name, "Sprint") &&
		slices.ContainsFunc(call.Args, func(arg ast.Expr) bool {
			v, _ := arg.(*ast.Ident)
			return v != nil && aboutErrors.MatchString(v.Name)
		})
}

func isCutter(n ast.Node) bool {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return false
	}
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return slices.Contains(cutters, f.Name)
	case *ast.SelectorExpr:
		return slices.Contains(cutters, f.Sel.Name)
	}
	return false
}

// TestTextsOfErrorsAreCut refuses texts of errors that may become part of a record, an event or an update at their full
// length: libraries, API servers, services and machines quote what tenants write. It looks at the packages that have
// records.
func TestTextsOfErrorsAreCut(t *testing.T) {
	t.Parallel()
	found, records := map[string][]string{}, map[string]bool{} // by directory
	eachSource(t, []string{"internal/controller", "internal/host"}, func(s source) {
		if strings.Contains(s.name, "test/") || s.dir == "internal/host/image" {
			return // what tests share, and answers to clients of a registry
		}
		found[s.dir] = append(found[s.dir], textsOfErrors(s.file, s.name)...)
		records[s.dir] = records[s.dir] || slices.ContainsFunc(s.file.Imports, func(i *ast.ImportSpec) bool {
			return strings.Trim(i.Path.Value, `"`) == Module+"internal/record"
		})
	})
	used := map[string]bool{}
	for dir, places := range found {
		for _, at := range places {
			used[at] = records[dir]
			if records[dir] && uncut[at] == "" {
				t.Errorf("%s makes a text of an error: give it to record.Reason, or name it here and say what bounds it", at)
			}
		}
	}
	for at := range uncut {
		if !used[at] {
			t.Errorf("the table has %s, which makes no text of an error", at)
		}
	}
}

func TestTextsOfErrorsAreSeen(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]bool{
		`func f() { row.Reason = err.Error() }`:                                      true,
		`func f() { row.Reason = "a: " + errors.Unwrap(err).Error() }`:               true,
		`func f() { row.Reason = record.Reason("a: " + err.Error()) }`:               false,
		`func f() { record.Reason(""); row.Reason = err.Error() }`:                   true,
		`func f() { row.Reason = fmt.Sprintf("a: %v", err) }`:                        true,
		`func f() { row.Reason = record.Reason(fmt.Sprintf("a: %v", err)) }`:         false,
		`func f() { row.Reason = fmt.Sprintf("a: %v", name) }`:                       false,
		`func f() { return strings.Contains(err.Error(), "a") }`:                     false,
		`func f() { log.Error("a", "error", err); return fmt.Errorf("a: %w", err) }`: false,
		`func (f *failure) Error() string { return f.err.Error() }`:                  false,
		`func f() { row.Update(func(r *Row) { r.Reason = err.Error() }) }`:           true,
		`func f() { p.warn(ctx, err.Error()) }`:                                      false,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x; "+code, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(textsOfErrors(file, "x.go")) > 0; got != want {
			t.Errorf("%s makes a text of an error: %v, want %v", code, got, want)
		}
	}
}
