package value

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
)

// none is the result of a function that has none.
const none = "(absent)"

// TestFunctions runs testdata/functions.txt.
func TestFunctions(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/functions.txt")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(data), "\n\n")
	var about []string
	for line := range strings.Lines(table) {
		line = strings.TrimSuffix(line, "\n")
		if name, ok := strings.CutPrefix(line, "# "); ok {
			about = append(about, name)
			continue
		}
		if line == "" {
			continue
		}
		text, want, ok := strings.Cut(line, "  =>  ")
		if !ok {
			t.Fatalf("a line without a result: %q", line)
		}
		t.Run(text, func(t *testing.T) {
			x := expression{t: t, rest: text, env: testEnv()}
			v := x.all()
			got := v.String()
			if v.IsNull() {
				got = none
			}
			if got != want {
				t.Errorf("is %q, not %q", got, want)
			}
		})
	}
	for _, name := range FunctionNames() {
		if !slices.Contains(about, name) {
			t.Errorf("no line is about %s", name)
		}
	}
}

func TestFunctionsTakeAnything(t *testing.T) {
	t.Parallel()
	env := testEnv()
	wrong := []Value{{}, String("\xff"), Int(-1), Int(math.MinInt64), FromJSON([]byte(`[1]`)), Time(math.MaxInt64),
		String(""), String("x"), Number(1e300), Bool(true), FromJSON([]byte(`{"a":1}`)),
		String(strings.Repeat("9", 400))}
	for _, name := range FunctionNames() {
		f, ok := LookupFunction(strings.ToUpper(name))
		if !ok {
			t.Fatalf("%s is not found in upper case", name)
		}
		most := f.Max
		if most < 0 || most > 3 {
			most = max(f.Min, 3)
		}
		// Every combination of values that are wrong for most functions: none panics.
		for n := f.Min; n <= most; n++ {
			args := make([]Value, n)
			wrong := wrong
			if n > 2 {
				wrong = wrong[:6]
			}
			total := 1
			for range n {
				total *= len(wrong)
			}
			for i := range total {
				for j := range args {
					args[j] = wrong[i%len(wrong)]
					i /= len(wrong)
				}
				_ = f.Call(env, args).String()
			}
		}
	}
}

func TestTextsAreBounded(t *testing.T) {
	t.Parallel()
	call := func(name string, args ...Value) Value {
		f, _ := LookupFunction(name)
		return f.Call(testEnv(), args)
	}
	long := String(strings.Repeat("a", 1<<20))
	for name, v := range map[string]Value{
		"concat":       call("concat", long, long, long, long, long),
		"replace":      call("replace", long, String("a"), String("0123456789")),
		"regexReplace": call("regexReplace", long, String("a"), String("0123456789")),
		"a match of many groups, whole": call("regexReplace", long, String("(?s)^.*$"),
			String(strings.Repeat("$0", 4000))),
		"a replacement of many groups": call("regexReplace", String("a"), String("(b)?a"),
			String(strings.Repeat("$1", maxReplacement+1))),
		"a long format": call("strftime", Int(0), String(strings.Repeat("%c", 1000))),
		"urlencode":     call("urlencode", String(strings.Repeat("%", 2<<20))),
		"split":         call("split", String(strings.Repeat("\n", 1<<20)), String("")),
	} {
		if !v.IsNull() {
			t.Errorf("%s gives %d bytes", name, len(v.String()))
		}
	}
	x := long
	for range 40 { // as a query can nest it
		x = call("concat", x, x)
	}
	if !x.IsNull() {
		t.Errorf("nested concat gives %d bytes", len(x.String()))
	}
}

func TestRegexReplaceKeepsFewExpressions(t *testing.T) {
	t.Parallel()
	env := testEnv()
	f, _ := LookupFunction("regexReplace")
	for i := range 1000 {
		f.Call(env, []Value{String("abc"), String("a" + strings.Repeat("b", i%300)), String("x")})
	}
	if n := len(env.regexes); n == 0 || n > maxRegexes {
		t.Errorf("%d expressions are kept", n)
	}
	for i := range 60 {
		for _, pattern := range []string{
			fmt.Sprintf("%d(ab{0,30}c{0,30}){0,7}", i), strings.Repeat("x", maxPattern+1+i),
		} {
			f.Call(env, []Value{String("abc"), String(pattern), String("x")})
		}
	}
	steps, text := 0, 0
	for pattern, re := range env.regexes {
		if text += len(pattern); re != nil {
			steps += re.steps
		}
	}
	if steps == 0 || steps > maxRegexSteps || text > maxRegexes*maxPattern {
		t.Errorf("expressions of %d steps and %d bytes are kept", steps, text)
	}
	if env.DropRegexes(500); len(env.regexes) > 0 {
		t.Error("large expressions are kept")
	}
}

func FuzzFunctions(f *testing.F) {
	for i, name := range FunctionNames() {
		f.Add(uint8(i), "5"+name, "02026-11-21T10:36:42Z", "0yyyy-MM-dd'T'HH:mm:ssX")
	}
	f.Add(uint8(0), "0%Y", "0[[yy]'", "0$1${x}\\2")
	names := FunctionNames()
	f.Fuzz(func(t *testing.T, i uint8, x, y, z string) {
		fn, _ := LookupFunction(names[int(i)%len(names)])
		args := []Value{fuzzed(x), fuzzed(y), fuzzed(z), fuzzed(x), fuzzed(y)}
		most := min(len(args), fn.Max)
		if fn.Max < 0 {
			most = len(args)
		}
		env := testEnv()
		for n := fn.Min; n <= most; n++ {
			for first := range 2 { // the arguments in another order, too
				v := fn.Call(env, args[:n])
				if again := fn.Call(env, args[:n]); again != v {
					t.Fatalf("%s%q is %q, and then %q", fn.Name, args[:n], v, again)
				}
				if v.Bytes() > maxText+1024 {
					t.Fatalf("%s gives %d bytes", fn.Name, v.Bytes())
				}
				if s, ok := stringArgument(v); v.Kind() == NumberKind && (!ok || !decimal(s, true)) {
					t.Fatalf("%s%q is the number %q", fn.Name, args[:n], v)
				}
				if k := v.Kind(); (k == ListKind || k == MapKind) && FromJSON([]byte(v.String())).Kind() != k {
					t.Fatalf("%s%q is %q, which is no JSON", fn.Name, args[:n], v)
				}
				args[first], args[first+1] = args[first+1], args[first]
			}
		}
	})
}
