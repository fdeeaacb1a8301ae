package value

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestAllMatchesAreThoseOfPackageRegexp(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{
		"a", "", "b*", `\b`, `\B`, "^", "(?m)^", "$", "(?m)$", "^a", `\ba`, "(a)(b)?", "(?i)A|é", "x*?", ".", "(?s).", `(?:)|a`,
		"a.*z|a", `\w+`, "(?P<n>b)",
	} {
		r, err := CompileRegex(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []string{
			"", "a", "ab ba aab", "é€a\xffb\xe2\x82a", "a\nb\na\n", "\n\n", "aAéÉ", "abababz aba", "\xff\xff",
		} {
			var got [][]int
			for pos, last := 0, -1; pos <= len(s); {
				at := r.findFrom(s, pos, nil)
				if at == nil {
					break
				}
				if at[1] != pos || at[0] != last {
					got = append(got, at)
				}
				pos, last = r.behindMatch(s, pos, at), at[1]
			}
			want := regexp.MustCompile(pattern).FindAllStringSubmatchIndex(s, -1)
			if !slices.EqualFunc(got, want, slices.Equal) {
				t.Errorf("/%s/ in %q: %v, want %v", pattern, s, got, want)
			}
		}
	}
}

// Each of these would take minutes to years if it did not look whether it shall end.
func TestLongFunctionsEnd(t *testing.T) {
	t.Parallel()
	done := make(chan struct{})
	close(done)
	env := testEnv()
	env.Done = done
	long := strings.Repeat("a", 4<<20)
	replace, _ := LookupFunction("regexReplace")
	for _, pattern := range []string{"a.*b|a", "a*?", "(?i)" + strings.Repeat("k", 900) + "h"} {
		replace.Call(env, []Value{String(long), String(pattern), String(strings.Repeat("$1", 5000))})
	}
	contains, _ := LookupFunction("jsonArrayContains")
	contains.Call(env, []Value{
		String("[" + strings.Repeat(`"1",`, 1<<20) + "1]"), String(strings.Repeat("1", 4<<20)),
	})
	slow, err := CompileRegex(strings.Repeat("(a|b){0,30}", 8) + "c")
	if err != nil {
		t.Fatal(err)
	}
	long += "b"
	if slow.Match(long+"c", done) {
		t.Error("an expression was matched to its end")
	}
	if _, ok := slow.Find(nil, long+"c", done); ok {
		t.Error("an expression was searched to its end")
	}
	folded, err := CompileRegex("(?i)" + strings.Repeat("k", 4000) + "h")
	if err != nil {
		t.Fatal(err)
	}
	if text := strings.Repeat("K", 1<<20); folded.Match(text+text[:4000]+"h", done) {
		t.Error("a text was searched to its end")
	}
}

// Each of these would take hours, or the memory of the daemon, with time or memory in proportion to the square.
func TestFunctionsAreLinear(t *testing.T) {
	t.Parallel()
	call := func(name string, args ...Value) string {
		f, _ := LookupFunction(name)
		return f.Call(testEnv(), args).String()
	}
	var runes strings.Builder
	for r := rune(0x10000); r < 0x10000+1<<20; r++ {
		runes.WriteRune(r)
	}
	set := runes.String()
	for _, name := range []string{"trim", "ltrim", "rtrim"} {
		if got := call(name, String(set+set), String(set)); got != "" {
			t.Errorf("%s leaves %d bytes", name, len(got))
		}
		if got := call(name, String("\xffé\xff"), String("\xff"+strings.Repeat("a", 40))); got == "\xffé\xff" {
			t.Errorf("%s leaves bytes that are no UTF-8", name)
		}
	}
	if got := call("parseDate", String("1"), String(strings.Repeat("[", 1<<20)+strings.Repeat("]", 1<<20))); got != "" {
		t.Errorf("a format of 2 MiB gives %s", got)
	}
	if got := call("regexReplace", String("a"), String("(a)"), String("$"+strings.Repeat("1", 1<<20))); got != "a"+
		strings.Repeat("1", 1<<20-1) {
		t.Errorf("a replacement with a long number gives %d bytes", len(got))
	}
	call("regexReplace", String("a"), String("a"), String(strings.Repeat("${", 1<<20)))
}

func TestZonesHaveOneName(t *testing.T) {
	t.Parallel()
	if _, ok := parseZone([]Value{String("Europe/Berlin")}); !ok {
		t.Error("Europe/Berlin is no zone")
	}
	for _, name := range []string{"./UTC", "Europe/./Berlin", "Europe//Berlin"} {
		if _, ok := parseZone([]Value{String(name)}); ok {
			t.Errorf("%s is a zone", name)
		}
	}
}

// Shapes of messages are compared with each other, which takes seconds where there are many.
func TestComparingPatternsEnds(t *testing.T) {
	t.Parallel()
	done := make(chan struct{})
	p := NewPatterns()
	p.Done = done
	p.Add("a b")
	p.Add("c d e")
	if n := len(p.clusters()); n != 2 {
		t.Fatalf("there are %d patterns", n)
	}
	close(done)
	if n := len(p.clusters()); n != 0 {
		t.Errorf("%d patterns were compared", n)
	}
}
