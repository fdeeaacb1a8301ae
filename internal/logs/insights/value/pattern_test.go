package value

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestPatterns(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name     string
		messages []string
		want     []Pattern
	}{
		{"of AWS's page on pattern analysis", []string{
			"2023-01-01 19:00:01 [INFO] Calling DynamoDB to store for resource id 12342342k124-12345",
			"2023-01-01 19:00:02 [INFO] Calling DynamoDB to store for resource id 324892398123-1234R",
			"2023-01-01 19:00:03 [INFO] Calling DynamoDB to store for resource id 3ff231242342-12345",
		}, []Pattern{{"<Date-1> <Time-2> [INFO] Calling DynamoDB to store for resource id <ID-3>", "INFO", 3, 0}}},
		{"of AWS's page on anomalies", []string{
			"2023-01-01 19:00:01 [INFO] Calling DynamoDB to store for ResourceID: 12342342k124-12345"},
			[]Pattern{{"<Date-1> <Time-2> [INFO] Calling DynamoDB to store for ResourceID: <ResourceID-3>", "INFO", 1,
				0}}},
		{"of AWS's page on pattern", []string{"[INFO] Request time: 327 ms", "[INFO] Request time: 4 ms"},
			[]Pattern{{"[INFO] Request time: <Time-1> ms", "INFO", 2, 0}}},
		{"severities are kept apart", []string{"[INFO] request done", "[ERROR] request done", "[ERROR] request done",
			"fatal: request done"}, []Pattern{{"[ERROR] request done", "ERROR", 2, 0}, {"[INFO] request done", "INFO",
			1, 0}, {"fatal: request done", "FATAL", 1, 0}}},
		{"klog", []string{
			`E1121 10:36:42.123456       1 reflector.go:204] "Failed to watch" err="dial tcp 10.0.0.1:443: connect: connection refused"`,
			`E1122 11:36:42.123457       1 reflector.go:204] "Failed to watch" err="dial tcp 10.0.0.2:443: connect: connection refused"`,
		}, []Pattern{
			{`E<Date-1> <Time-2>       <Number-3> reflector.go:<Number-4>] "Failed to watch" err="dial tcp <IP-5>: connect: connection refused"`, "ERROR", 2, 0}}},
		{"words that vary", []string{"user alice logged in from 10.0.0.1", "user bob logged in from 10.0.0.2",
			"user carol logged in from 2001:db8::1"}, []Pattern{{"user <User-1> logged in from <IP-2>", "NONE", 3, 0}}},
		{"different messages", []string{"a b c d", "e f g h", "a b c"}, []Pattern{{"a b c", "NONE", 1, 0},
			{"a b c d", "NONE", 1, 0}, {"e f g h", "NONE", 1, 0}}},
		{"short names with a digit are words", []string{"get s3 v1 http2"},
			[]Pattern{{"get s3 v1 http2", "NONE", 1, 0}}},
		{"URLs and UUIDs",
			[]string{
				"GET /api/v1/pods/web-7d4b?limit=500 id 062111fe-1717-4fb7-a0cd-087ba5ced4b5 at 2026-11-21T10:36:42Z"},
			[]Pattern{{"GET /api/v1/pods/<Token-1>?limit=<Limit-2> id <UUID-3> at <Time-4>", "NONE", 1, 0}}},
		{"nothing", []string{"", ""}, []Pattern{{"", "NONE", 2, 0}}},
		{"delimiters only", []string{" ... ", "::"}, []Pattern{{" ... ", "NONE", 1, 0}, {"::", "NONE", 1, 0}}},
		{"other scripts", []string{"日本語 123 ü", "日本語 456 ü"}, []Pattern{{"日本語 <Number-1> ü", "NONE", 2, 0}}},
	}
	for _, c := range cases {
		p := NewPatterns()
		for _, m := range c.messages {
			p.Add(m)
		}
		if got := p.Patterns(); !slices.Equal(got, c.want) {
			t.Errorf("%s:\n%+v\nnot\n%+v", c.name, got, c.want)
		}
	}
}

func TestPatternRows(t *testing.T) {
	t.Parallel()
	p := NewPatterns()
	for i := range 3 {
		p.Add(fmt.Sprintf("took %d ms", i))
	}
	p.Add("failed")
	p.AddEarlier("gone")
	var got []string
	for _, r := range p.Results() {
		if len(r) != len(PatternColumns) {
			t.Fatalf("%d columns", len(r))
		}
		for _, v := range r {
			got = append(got, v.String())
		}
	}
	want := []string{"took <Number-1> ms", "0.75", "3", "NONE", "failed", "0.25", "1", "NONE"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if all := p.Patterns(); len(all) != 3 || all[2] != (Pattern{"gone", "NONE", 0, 1}) {
		t.Errorf("%+v", all)
	}
}

// logLines are of a few forms, with values that vary, and of some that have no form.
func logLines(r *rand.Rand, n int) []string {
	users := []string{"alice", "bob", "carol", "dave"}
	lines := make([]string, n)
	for i := range lines {
		switch r.IntN(5) {
		case 0:
			lines[i] = fmt.Sprintf("2026-11-21T10:%02d:%02dZ INFO user %s logged in from 10.0.%d.%d", r.IntN(60),
				r.IntN(60), users[r.IntN(4)], r.IntN(256), r.IntN(256))
		case 1:
			lines[i] = fmt.Sprintf("WARN took %dms to answer request id=%x", r.IntN(10_000), r.Uint64())
		case 2:
			lines[i] = fmt.Sprintf(`E1121 10:36:42.%06d       1 reflector.go:%d] "Failed" err="timeout"`, r.IntN(1e6),
				r.IntN(900)+100)
		default:
			words := make([]string, 3+r.IntN(6))
			for i := range words {
				words[i] = strings.Repeat(string(rune('a'+r.IntN(26))), 1+r.IntN(3))
			}
			lines[i] = strings.Join(words, " ")
		}
	}
	return lines
}

func TestPatternsDoNotDependOnOrder(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	lines := logLines(r, 3000)
	whole := NewPatterns()
	for _, l := range lines {
		whole.Add(l)
	}
	want := whole.Patterns()
	for range 4 {
		r.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
		parts := []*Patterns{NewPatterns(), NewPatterns(), NewPatterns()}
		for _, l := range lines {
			parts[r.IntN(3)].Add(l)
		}
		parts[2].Merge(parts[0])
		parts[2].Merge(parts[1])
		if got := parts[2].Patterns(); !slices.Equal(got, want) {
			t.Fatalf("%d patterns in one order, %d in another", len(want), len(got))
		}
	}
}

func TestPatternsAreBounded(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 6))
	a, b := NewPatterns(), NewPatterns()
	const n = 30_000
	for i, l := range logLines(r, n) {
		if i%2 == 0 {
			a.Add(l + strings.Repeat(" tail", r.IntN(500)))
		} else {
			b.Add(l)
		}
	}
	a.Merge(b)
	if len(a.shapes) > maxShapes || a.Bytes() > 64<<20 {
		t.Errorf("%d shapes of %d bytes", len(a.shapes), a.Bytes())
	}
	total := int64(0)
	for _, p := range a.Patterns() {
		total += p.Count
	}
	if total != n {
		t.Errorf("%d messages of %d are counted", total, n)
	}
	for _, want := range []string{"<Time-1> INFO user <User-2> logged in from <IP-3>",
		`E<Date-1> <Time-2>       <Number-3> reflector.go:<Number-4>] "Failed" err="timeout"`} {
		if !slices.ContainsFunc(a.Patterns(), func(p Pattern) bool { return p.Text == want }) {
			t.Errorf("%s is missing", want)
		}
	}
}

func FuzzPatterns(f *testing.F) {
	f.Add("2026-11-21 10:36:42 [INFO] a: 1", "E1121 x::1.. ")
	f.Add("\xff:\x00=\"", ":.:.")
	f.Fuzz(func(t *testing.T, x, y string) {
		p := NewPatterns()
		p.Add(x)
		p.Add(y)
		p.Add(x)
		total := int64(0)
		for _, c := range p.Patterns() {
			total += c.Count
		}
		if total != 3 {
			t.Fatalf("%d of 3 messages are counted", total)
		}
		// Nothing of a message is lost: its words and what is between them are all of it.
		var b strings.Builder
		for _, w := range readShape(string(appendShape(nil, splitMessage(nil, x)))) {
			if w.kind == static {
				b.WriteString(w.text)
			}
			b.WriteString(w.behind)
		}
		if len(splitMessage(nil, x)) == 0 || !strings.ContainsAny(x, "0123456789") && len(x) < patternLength &&
			b.String() != x {
			t.Fatalf("%q became %q", x, b.String())
		}
	})
}

func BenchmarkPatterns(b *testing.B) {
	lines := logLines(rand.New(rand.NewPCG(3, 4)), 1000)
	p := NewPatterns()
	i := 0
	for b.Loop() {
		p.Add(lines[i%len(lines)])
		i++
	}
}
