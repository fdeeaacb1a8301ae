package policy

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzPattern shows that wildcards match what they should, by comparing them with regular expressions.
func FuzzPattern(f *testing.F) {
	for _, s := range [][2]string{
		{"arn:aws:s3:::bucket/*", "arn:aws:s3:::bucket/a/b"}, {"*a*b*c?", "xaybzcé"}, {"?", ""}, {"**", "x"}, {"", ""},
		{"a*?*b", "ab"}, {"${*}${?}${$}", "*?$"}, {"${unclosed", "${unclosed"},
		{strings.Repeat("*a", 20), strings.Repeat("a", 30)},
	} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, text, value string) {
		if !utf8.ValidString(text) || !utf8.ValidString(value) {
			return // the JSON of a policy, and what it is compared with, are valid
		}
		p := compilePattern(text, syntax{wildcards: true})
		var expression strings.Builder
		expression.WriteString(`^(?s:`)
		for _, r := range text {
			switch r {
			case '*':
				expression.WriteString(`.*`)
			case '?':
				expression.WriteString(`.`)
			default:
				expression.WriteString(regexp.QuoteMeta(string(r)))
			}
		}
		expression.WriteString(`)$`)
		want, err := regexp.Compile(expression.String())
		if err != nil {
			return // too long
		}
		if got := p.matches(value, &evaluation{}); got != want.MatchString(value) {
			t.Fatalf("%q and %q: %t", text, value, got)
		}
	})
}

// FuzzCondition shows that no value satisfies a condition and its negation.
func FuzzCondition(f *testing.F) {
	for _, s := range [][3]string{
		{"StringEquals", "a", "a"}, {"StringLike", "${aws:username}*", "alice"}, {"NumericLessThanEquals", "5", "NaN"},
		{"NumericEquals", "Inf", "+inf"}, {"DateGreaterThan", "2026-01-01", "1e400"}, {"Bool", "true", "TRUE"},
		{"IpAddress", "10.0.0.0/8", "::ffff:10.1.2.3"}, {"IpAddress", "::/0", "fe80::1%eth0"},
		{"ArnLike", "arn:aws:iam::*:role/${aws:PrincipalTag/x, '*'}", "arn:aws:iam::1:role/a"},
		{"BinaryEquals", "QQ==", "QR=="}, {"Null", "true", ""},
	} {
		f.Add(s[0], s[1], s[2])
	}
	f.Fuzz(func(t *testing.T, operator, wanted, value string) {
		c, err := compileCondition(operator, "aws:key", []string{wanted}, true)
		if err != nil {
			return
		}
		keys := &evaluation{keys: Context{"aws:key": {value}, "aws:username": {"alice"}}}
		holds := c.isSatisfied(keys)
		opposite, ok := map[string]string{
			"StringEquals": "StringNotEquals", "StringLike": "StringNotLike", "NumericEquals": "NumericNotEquals",
			"DateEquals": "DateNotEquals", "IpAddress": "NotIpAddress", "ArnLike": "ArnNotLike",
			"ArnEquals": "ArnNotEquals",
		}[operator]
		if !ok {
			return
		}
		n, err := compileCondition(opposite, "aws:key", []string{wanted}, true)
		if err != nil {
			t.Fatalf("%s takes %q and %s does not: %v", operator, wanted, opposite, err)
		}
		if holds && n.isSatisfied(keys) {
			t.Fatalf("%q is %s and %s to %q", value, operator, opposite, wanted)
		}
	})
}
