package insights

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/internal/logs/insights/value"
)

// fieldList returns the names of so many fields, of a character each.
func fieldList(n int) string {
	var all []string
	for name := '一'; len(all) < n; name++ {
		all = append(all, string(name))
	}
	return strings.Join(all, ",")
}

// measure returns how many bytes f allocates. Nothing else may run.
func measure(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// A query of 10,000 characters compiles to little, or not at all: columns are passed on from each limit to the next.
func TestPlansAreBounded(t *testing.T) { //nolint:paralleltest // it measures memory
	for name, c := range map[string]struct{ query, says string }{
		"all fields":    {"fields " + fieldList(990), ""},
		"too many":      {"fields " + fieldList(4990), "reads too many fields"},
		"in conditions": {"filter " + strings.ReplaceAll(fieldList(3000), ",", "+") + "=1", "reads too many fields"},
		"segments":      {"fields " + fieldList(190) + strings.Repeat("|limit 1", 98), ""},
		"many segments": {"fields a" + strings.Repeat("|limit 1", 1200), ""},
		"long names": {"fields " + strings.Repeat("a.", 2500) + "a" + strings.Repeat("|limit 1", 600) + "|filter b.c=1",
			""},
		"columns":            {"fields " + fieldList(990) + strings.Repeat("|limit 1", 19), ""},
		"in all of them":     {"fields " + fieldList(990) + strings.Repeat("|limit 1", 90), "pass on too many columns"},
		"fields behind them": {strings.Repeat("limit 1|", 90) + "fields " + fieldList(900), "pass on too many columns"},
		"aliases": {"fields a+1 as b" + strings.Repeat(",b+1 as b", 900) + strings.Repeat("|limit 1", 90),
			""},
		"arguments": {"filter concat(a" + strings.Repeat(",a", 4000) + ")in[1" + strings.Repeat(",1", 63) + "]", ""},
	} {
		q, err := Parse(c.query)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		taken := measure(func() { _, err = Compile(q, Options{Start: 1, End: 2, Now: 2}) })
		var syntax *SyntaxError
		if (err == nil) != (c.says == "") || err != nil && (!errors.As(err, &syntax) ||
			!strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
		if taken > 32<<20 {
			t.Errorf("%s takes %d MB", name, taken>>20)
		}
	}
}

// Tests of conditions have frames in common, of which each has room for the arguments of all functions.
func TestConditionsShareFrames(t *testing.T) { //nolint:paralleltest // it measures memory
	for name, query := range map[string]string{
		"values": "filter " + strings.Repeat("concat(@log"+strings.Repeat(",@log", 50)+")in[1"+strings.Repeat(",1", 63)+
			"]or ", 20) + "@log=''",
		"conditions": "filter " + strings.Repeat("concat(@log,@log)=''or ", 400) + "@log=''",
	} {
		q, err := Parse(query)
		if err != nil {
			t.Fatal(err)
		}
		p, err := Compile(q, Options{Start: 1, End: 2, Now: 2})
		if err != nil {
			t.Fatal(err)
		}
		tested := 0
		var test func(c *Condition)
		test = func(c *Condition) {
			for _, each := range append(c.All, c.Any...) {
				test(each)
			}
			if c.Test != nil {
				c.Test(value.String("x"))
				tested++
			}
		}
		if taken := measure(func() { test(p.Where()) }); tested < 20 || taken > 4<<20 {
			t.Errorf("%s: %d tests take %d KB", name, tested, taken>>10)
		}
	}
}
