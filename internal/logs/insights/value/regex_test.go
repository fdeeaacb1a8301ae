package value

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestRegexSyntax(t *testing.T) {
	t.Parallel()
	cases := []struct {
		pattern  string
		match    []string
		no       []string
		literals []string
	}{
		{`Exception`, []string{"an Exception", "Exception"}, []string{"exception", "Excep tion"},
			[]string{"Exception"}},
		{`(?i)Exception`, []string{"an EXCEPTION"}, []string{"Excep"}, nil},
		{`^(?i)Exception$`, []string{"exception"}, []string{"an exception"}, nil},
		{`(?i)Access`, []string{"aCCe\u017fs", "ACCESS", "xaccess"}, []string{"acces", "acce\u212as"}, nil},
		{`(?i)(error|failure|x9)`, []string{"an ERROR", "eRRor", "Failure", "X9"}, []string{"erro", "errofailur"}, nil},
		{`(?i)\xfcber`, []string{"\u00dcBER"}, []string{"uber"}, nil},
		{`error|failure`, []string{"failure"}, []string{"Error"}, nil},
		{`(?i)200`, []string{"x200"}, []string{"201"}, []string{"200"}},
		{`^kube-apiserver-audit`, []string{"kube-apiserver-audit-1"}, []string{"x-kube-apiserver-audit"},
			[]string{"kube-apiserver-audit"}},
		{`\/var\/log`, []string{"/var/log/x"}, []string{"/var"}, []string{"/var/log"}},
		{`a\.b\-c\"d\'e\ f`, []string{`a.b-c"d'e f`}, []string{`axb-c"d'e f`}, []string{`a.b-c"d'e f`}},
		{`2\d\d`, []string{"204"}, []string{"2x4"}, []string{"2"}},
		{`(error|failure)`, []string{"a failure"}, []string{"fail"}, nil},
		{`user=(?<user>\w+), method:(?P<method>\w+)`, []string{"user=a, method:b"}, []string{"user=, method:b"},
			[]string{"user=", ", method:"}},
		{`abc*`, []string{"ab"}, []string{"ac"}, []string{"ab"}},
		{`abc+d`, []string{"abccd"}, []string{"abd"}, []string{"ab", "c", "d"}},
		{`(abc){2,3}`, []string{"abcabc"}, []string{"abc"}, []string{"abcabc"}},
		{`x{0}y`, []string{"y"}, []string{"x"}, []string{"y"}},
		{`a{,3}`, []string{"a{,3}"}, []string{"aaa"}, []string{"a{,3}"}},
		{`[[:alpha:]]\]x[]a]`, []string{"q]x]"}, []string{"1]x]"}, []string{"]x"}},
		{`[^]]`, []string{"x"}, []string{"]"}, nil},
		{`[a[b]`, []string{"["}, []string{"c"}, nil},
		{`\Qa.b\E.c`, []string{"a.bxc"}, []string{"axbxc"}, []string{"a.b", "c"}},
		{`\Qa+`, []string{"a+"}, []string{"aa"}, []string{"a+"}},
		{`end\Z`, []string{"end", "end\n"}, []string{"end "}, []string{"end"}},
		{`a\hb`, []string{"a\tb"}, []string{"a\nb"}, []string{"a", "b"}},
		{`a\Rb`, []string{"a\r\nb", "a\nb"}, []string{"ab"}, []string{"a", "b"}},
		{`\u00fcber`, []string{"über"}, []string{"uber"}, []string{"über"}},
		{`日本`, []string{"日本語"}, []string{"日"}, []string{"日本"}},
		{`\e\[0m`, []string{"\x1b[0m"}, []string{"[0m"}, []string{"\x1b[0m"}},
		{`\bfoo\b`, []string{"a foo b"}, []string{"afoo"}, []string{"foo"}},
		{``, []string{"", "x"}, nil, nil},
		{`.*`, []string{""}, nil, nil},
		{`a+?b??`, []string{"a"}, []string{"b"}, []string{"a"}},
		{`(?s)a.b`, []string{"a\nb"}, []string{"ab"}, []string{"a", "b"}},
		{`\x{FFFD}x`, []string{"\xffx"}, []string{"x"}, []string{"x"}},
		{`\p{Lu}\d`, []string{"Ä1"}, []string{"ä1"}, nil},
	}
	for _, c := range cases {
		r, err := CompileRegex(c.pattern)
		if err != nil {
			t.Errorf("/%s/: %v", c.pattern, err)
			continue
		}
		if r.String() != c.pattern {
			t.Errorf("/%s/ calls itself /%s/", c.pattern, r)
		}
		for _, s := range c.match {
			if !r.Match(s, nil) {
				t.Errorf("/%s/ does not match %q", c.pattern, s)
			}
			if _, ok := r.Find(nil, s, nil); !ok {
				t.Errorf("/%s/ finds nothing in %q", c.pattern, s)
			}
		}
		for _, s := range c.no {
			if r.Match(s, nil) {
				t.Errorf("/%s/ matches %q", c.pattern, s)
			}
			if _, ok := r.Find(nil, s, nil); ok {
				t.Errorf("/%s/ finds something in %q", c.pattern, s)
			}
		}
		if !slices.Equal(r.Literals(), c.literals) {
			t.Errorf("/%s/ has the literals %q, not %q", c.pattern, r.Literals(), c.literals)
		}
	}
}

func TestRegexRefuses(t *testing.T) {
	t.Parallel()
	for pattern, says := range map[string]string{
		`a(?=b)`: "lookahead", `a(?!b)`: "negative lookahead", `(?<=a)b`: "lookbehind",
		`(?<!a)b`: "negative lookbehind", `(?>a)`: "atomic group",
		`a++`: "possessive", `a*+`: "possessive", `a?+`: "possessive", `a{2,3}+`: "possessive",
		`(a)\1`: "backreference", `(?<x>a)\k<x>`: "backreference", `[a-z&&[^b]]`: "intersection",
		`(`: "missing closing )", `a)`: "unexpected )", `[a`: "missing closing ]", `*`: "missing argument",
		`a**`: "invalid nested", `\`: "trailing backslash", `(?<a-b>a)`: "invalid named capture",
		`\y`:      "invalid escape",
		`a{1001}`: "repeats too much", `((a{100}){100}){100}`: "repeats too much",
		`(((a{30}){30}){30}){30}`: "repeats too much", `(?:\pL{31}){31}`: "too large", `(?:ab){501}`: "too large",
		strings.Repeat("(", 1200) + strings.Repeat(")", 1200): "nested too deeply",
		strings.Repeat("a", 5000):                             "5000 bytes",
	} {
		if _, err := CompileRegex(pattern); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("/%.60s/: %v, which does not say %q", pattern, err, says)
		}
	}
}

func TestRegexesOfUsualSizesAreTaken(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{
		`[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}`, `(\d{1,3}\.){3}\d{1,3}`,
		`^(?<ip>\S+) \S+ \S+ \[(?<time>[^\]]+)\] "(?<method>\w+) (?<path>[^ "]+) [^"]*" (?<status>\d{3}) (?<size>\d+|-)`,
		`(?i)(error|exception|fail(ed|ure)?|fatal|panic|timed? ?out|denied|refused|unauthorized)`, `.{0,256}`,
		`\w{1,63}(\.\w{1,63}){1,5}`, strings.Repeat("a", 4000), strings.Repeat("word|", 100) + "x",
	} {
		if _, err := CompileRegex(pattern); err != nil {
			t.Errorf("/%.80s/: %v", pattern, err)
		}
	}
}

func TestRegexGroups(t *testing.T) {
	t.Parallel()
	r, err := CompileRegex(`user=(?<user>\w+)(; role=(?P<role>\w+))?`)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Groups(); !slices.Equal(got, []string{"user", "", "role"}) {
		t.Errorf("groups %q", got)
	}
	got, ok := r.Find([]Value{Int(7)}, "user=alice", nil)
	if !ok || len(got) != 4 || got[0].String() != "7" || got[1].String() != "alice" || !got[2].IsNull() ||
		!got[3].IsNull() {
		t.Errorf("found %v, %v", got, ok)
	}
	got, ok = r.Find(nil, "x user=bob; role=admin", nil)
	if !ok || got[2].String() != "admin" {
		t.Errorf("found %v, %v", got, ok)
	}
}

func FuzzRegex(f *testing.F) {
	f.Add(`a(b|c)d*\/e`, "abd/e acd/e")
	f.Add(`(?i)stra\u00dfe|(?:foo){2}`, "STRASSE foofoo")
	f.Add(`^\s*(\w+)\b[^]x]+$`, "  abc, d")
	f.Add(`\Qa.b\E\x{FFFD}?`, "a.b\xff")
	f.Add(`(ab?)+c{0,2}`, "abac")
	f.Add(`(?i)(access|task|x)`, "ACCE\u017fS tas\u212a")
	f.Fuzz(func(t *testing.T, pattern, s string) {
		r, err := CompileRegex(pattern)
		if err != nil {
			return
		}
		for _, s := range []string{s, s + pattern, strings.ToUpper(pattern), strings.Trim(pattern, `^$\/`)} {
			match := r.re.MatchString(s)
			if r.Match(s, nil) != match {
				t.Fatalf("/%s/: Match(%q) is %v, its expression says %v", pattern, s, !match, match)
			}
			for _, l := range r.Literals() {
				if match && !strings.Contains(s, l) {
					t.Fatalf("/%s/ matches %q without %q", pattern, s, l)
				}
			}
			if values, ok := r.Find(nil, s, nil); ok != match || ok && len(values) != len(r.Groups()) {
				t.Fatalf("/%s/: Find(%q) is %v", pattern, s, values)
			}
		}
		// What Go understands without translation means the same after it.
		if plain, err := regexp.Compile(pattern); err == nil && plain.MatchString(s) != r.re.MatchString(s) {
			t.Fatalf("/%s/ was translated to /%s/, which is another expression for %q", pattern, r.re, s)
		}
	})
}

func BenchmarkRegex(b *testing.B) {
	events := auditEvents(b)
	for _, pattern := range []string{`aws-nothing`, `(?i)exception`, `(?i)(error|failure)`, `"code":(4|5)\d\d,`,
		`user=\w+ role=\w+`} {
		b.Run(pattern, func(b *testing.B) {
			r, err := CompileRegex(pattern)
			if err != nil {
				b.Fatal(err)
			}
			perCPU(b, events, func() {
				for _, e := range events {
					r.Match(unsafeString(e), nil)
				}
			})
		})
	}
}
