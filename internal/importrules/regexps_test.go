package importrules

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// TestExpressionsAreMeasured refuses regular expressions that are compiled while the daemon runs, unless the function
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
		compiled, measured := unmeasured(s.file)
		seen += compiled
		for _, call := range measured {
			if !allowed[s.dir] {
				t.Errorf("%s compiles a regular expression: measure it with internal/regexsize before, or match it without",
					s.files.Position(call.Pos()))
			}
		}
	})
	if seen == 0 {
		t.Error("no expression is compiled")
	}
}

// TestWhatMeasuresAnExpression has functions that compile one.
func TestWhatMeasuresAnExpression(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]int{
		`var e = regexp.MustCompile(text)`:                                                       0, // at the start
		`var f = func(s string) { regexp.MustCompile(s) }`:                                       1,
		`var f = map[string]func(string){"a": func(s string) { regexp.MatchString(s, "b") }}`:    1,
		`func f(s string) { regexp.MustCompile("a") }`:                                           0,
		`func f(s string) { regexp.MustCompile(s) }`:                                             1,
		`func f(s string) { go func() { regexp2.Compile(s) }() }`:                                1,
		`func f(s string) { regexsize.Estimate(s); regexp.MustCompile(s) }`:                      0,
		`func f(s string) { regexp.MustCompile(s); regexsize.Estimate(s) }`:                      1,
		`func f(s string) { regexsize.Estimate(s) }; func g(s string) { regexp.MustCompile(s) }`: 1,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "", "package p\n"+body, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, got := unmeasured(file); len(got) != want {
			t.Errorf("%s: %d are not measured, want %d", body, len(got), want)
		}
	}
}

// unmeasured returns how many regular expressions the functions of a file compile, and those among them that nothing
// before in the same function measures. Those of variables are compiled at the start, but not those in functions there.
func unmeasured(file *ast.File) (compiled int, calls []*ast.CallExpr) {
	look := func(function ast.Node) {
		measures := false
		ast.Inspect(function, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if callOf(call, "regexsize") != "" {
				measures = true
			}
			if compilesExpression(call) {
				compiled++
				if !measures {
					calls = append(calls, call)
				}
			}
			return true
		})
	}
	for _, declaration := range file.Decls {
		ast.Inspect(declaration, func(n ast.Node) bool {
			switch n.(type) {
			case *ast.FuncDecl, *ast.FuncLit:
				look(n)
				return false
			}
			return true
		})
	}
	return compiled, calls
}

// callOf returns the function of one of some packages that a call is of; empty if it is of another.
func callOf(call *ast.CallExpr, packages ...string) string {
	function, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	if pkg, ok := function.X.(*ast.Ident); !ok || !slices.Contains(packages, pkg.Name) {
		return ""
	}
	return function.Sel.Name
}

// compilesExpression reports whether a call compiles a regular expression that is not a text of the source.
func compilesExpression(call *ast.CallExpr) bool {
	name := strings.TrimPrefix(callOf(call, "regexp", "regexp2"), "Must")
	if !strings.HasPrefix(name, "Compile") && !strings.HasPrefix(name, "Match") || len(call.Args) == 0 {
		return false
	}
	_, literal := call.Args[0].(*ast.BasicLit)
	return !literal
}
