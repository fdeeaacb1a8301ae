package policy

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
)

// TestGlobIsLinear counts steps. A search that begins again behind every character takes hundreds of times as many.
func TestGlobIsLinear(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("a", MaxValue)
	const most = 4
	for name, test := range map[string]struct {
		pattern string
		most    int // steps for each byte of both
	}{
		"the end is missing":              {"*" + strings.Repeat("a", 720) + "b", most},
		"the middle is missing":           {"*" + strings.Repeat("a", 720) + "b*", most},
		"many middles":                    {strings.Repeat("*a", 700) + "b*", most},
		"many middles, the last is apart": {strings.Repeat("*aaaa", 200) + "*b*c", most},
		"any characters in the middle":    {"*" + strings.Repeat("a?", 31) + "b*", most},
		"many any characters":             {"*" + strings.Repeat("a?", 500) + "b*", 64},
		"any characters at the end":       {"*" + strings.Repeat("?", 1000) + "b", most},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := compilePattern(test.pattern, syntax{wildcards: true})
			matched, steps := matchGlob(p.text, text)
			if bound := test.most * (len(p.text) + len(text)); matched || steps > bound {
				t.Errorf("matched: %t, in %d steps, want at most %d", matched, steps, bound)
			}
		})
	}
}

func TestGlob(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("xé", 100)
	for _, test := range []struct {
		pattern, text string
		want          bool
	}{
		{"*a?c*", "abacabc", true},
		{"*a?c*", "abaabc", true},
		{"*a?c*", "aabb", false},
		{"*a?c*?", "abc", false},
		{"*a?c*?", "abcé", true},
		{"*a?c*a?c*", "abc", false},
		{"*a?c*a?c*", "abcadc", true},
		{"??", "é", false},
		{"*é?é*", "éxé", true},
		{"*?", "", false},
		{"*????", "éa", false},
		{"*" + strings.Repeat("xé", 90) + "?é*", long, true},
		{"*" + strings.Repeat("xé", 90) + "?e*", long, false},
		{"*" + strings.Repeat("??", 100) + "*", long, true},
		{"*" + strings.Repeat("??", 100) + "?*", long, false},
		{"*\uFFFD?*", "a\xffb", false}, // an invalid byte is not the character that stands for it
	} {
		p := compilePattern(test.pattern, syntax{wildcards: true})
		if got := p.matches(test.text, &evaluation{}); got != test.want {
			t.Errorf("%q and %q: %t", test.pattern, test.text, got)
		}
	}
}

// TestWhatCannotBeDecidedIsRefused shows that a Deny is not escaped with a value that is too long or a budget that is
// spent.
func TestWhatCannotBeDecidedIsRefused(t *testing.T) {
	t.Parallel()
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	const allow = `{"Effect": "Allow", "Action": "*", "Resource": "*"}`
	agents := func(operator, pattern string) string {
		return `[` + allow + `, {"Effect": "Deny", "Action": "*", "Resource": "*", "Condition": {"` + operator +
			`": {"aws:UserAgent": "` + pattern + `"}}}]`
	}
	long := Context{"aws:UserAgent": {strings.Repeat("a", MaxValue+1)}}
	allowed := Context{"aws:UserAgent": {strings.Repeat("a", MaxValue)}}
	var tooLong *TooLongError
	for name, test := range map[string]struct {
		statements string
		resource   string // cluster unless given
		keys       Context
		budget     *Budget
		err        func(error) bool // nil: the request is allowed
	}{
		"the longest value": {statements: agents("StringLike", "*b"), keys: allowed},
		"a longer value": {statements: agents("StringLike", "*b"), keys: long,
			err: func(err error) bool { return errors.As(err, &tooLong) }},
		"a longer value, negated": {statements: agents("StringNotLike", "a*"), keys: long,
			err: func(err error) bool { return errors.As(err, &tooLong) }},
		"a longer value in a variable": {statements: agents("StringLike", "${aws:UserAgent}b"), keys: long,
			err: func(err error) bool { return errors.As(err, &tooLong) }},
		"a longer value nobody asks":    {statements: allow, keys: long},
		"only whether there is a value": {statements: agents("Null", "true"), keys: long},
		"a longer resource": {statements: `[` + allow +
			`, {"Effect": "Deny", "Action": "*", "Resource": "arn:aws:s3:::*b"}]`,
			resource: "arn:aws:s3:::" + strings.Repeat("a", MaxValue),
			err:      func(err error) bool { return errors.As(err, &tooLong) }},
		"budget": {statements: agents("StringLike", "*b"), keys: allowed, budget: NewBudget(t.Context(), 1<<20)},
		"spent budget": {statements: agents("StringLike", "*b"), keys: allowed, budget: NewBudget(t.Context(), 100),
			err: func(err error) bool { return errors.Is(err, ErrBudget) }},
		"the client left": {statements: agents("StringLike", "*b"), keys: allowed, budget: NewBudget(canceled, 1<<20),
			err: func(err error) bool { return errors.Is(err, context.Canceled) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &Request{
				Action:    "eks:DescribeCluster",
				Resource:  test.resource,
				Principal: alice,
				Keys:      test.keys,
				Budget:    test.budget,
			}
			if r.Resource == "" {
				r.Resource = cluster
			}
			d := Evaluate(r, &Policies{Identity: sources(t, Identity, statement(test.statements))})
			switch {
			case test.err == nil:
				if !d.Allowed() || d.Err != nil {
					t.Errorf("%+v", d)
				}
			case d.Allowed() || !test.err(d.Err) || !strings.Contains(d.Reason(), d.Err.Error()):
				t.Errorf("%+v", d)
			}
		})
	}
}

// TestEveryOperatorTakesSteps compares the lists of a condition with the values of a request, by each operator.
func TestEveryOperatorTakesSteps(t *testing.T) {
	t.Parallel()
	const many = 1000
	samples := map[string][2]string{ // a value of the policy, and one of the request that does not equal it
		"Numeric": {"1", "2"}, "Date": {"2024-01-01", "2025-01-01"}, "Bool": {"true", "false"},
		"Binary": {"YQ==", "Yg=="}, "Ip": {"10.0.0.1", "10.0.0.2"}, "Arn": {cluster, cluster + "x"}, "String": {"a", "b"},
	}
	for operator := range operators {
		if operator == "Null" {
			continue // it takes one value
		}
		t.Run(operator, func(t *testing.T) {
			t.Parallel()
			sample := [2]string{"", ""}
			for kind, s := range samples {
				if strings.HasPrefix(strings.TrimPrefix(operator, "Not"), kind) {
					sample = s
				}
			}
			if sample[0] == "" {
				t.Fatal("there is no sample for it")
			}
			wanted := strings.TrimSuffix(strings.Repeat(`"`+sample[0]+`",`, many), ",")
			identity := sources(t, Identity, statement(`{"Effect": "Allow", "Action": "*", "Resource": "*",
				"Condition": {"ForAnyValue:`+operator+`": {"a:b": [`+wanted+`]}}}`))
			d := Evaluate(&Request{Action: "eks:DescribeCluster", Resource: cluster, Principal: alice,
				Keys:   Context{"a:b": slices.Repeat([]string{sample[1]}, many)},
				Budget: NewBudget(t.Context(), many)}, &Policies{Identity: identity})
			if !errors.Is(d.Err, ErrBudget) {
				t.Errorf("%d values were compared with %d in %d steps: %+v", many, many, many, d)
			}
		})
	}
}
