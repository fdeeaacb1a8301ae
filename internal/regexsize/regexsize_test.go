package regexsize

import (
	"regexp/syntax"
	"strings"
	"testing"
)

func TestEstimateIsNotBelowTheProgram(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{
		``, `a`, `abc`, `(?i)abc`, `[a-z0-9_]`, `.`, `^$`, `a|b|cd`, `(a)(?:b)(?P<c>d)`, `a*b+c?`, `a*?b+?c??`,
		`a{3}`, `a{3,}`, `a{3,7}`, `a{0,7}`, `a{0}`, `(?:a?){100}`, `(()()()){50}`, `(?:(?:ab){10}c){20}`, `[^a]{1,1000}`,
		`(?:a|b|c|()){1,99}`, strings.Repeat("(a|", 90) + strings.Repeat(")", 90), `(?:\b\B\A\z){9}`,
	} {
		tree, err := syntax.Parse(pattern, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		estimate := Estimate(tree)
		program, err := syntax.Compile(tree.Simplify())
		if err != nil {
			t.Fatal(err)
		}
		if n := len(program.Inst) - 2; estimate < n { // it fails with one, and matches with another
			t.Errorf("%.30s: the estimate is %d, the program has %d instructions", pattern, estimate, n)
		}
		if n := len(program.Inst); estimate > 3*n+3 {
			t.Errorf("%.30s: the estimate is %d, the program has only %d instructions", pattern, estimate, n)
		}
	}
}
