package resource

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

func TestGlobs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, value string
		fits           bool
	}{
		{"", "", true}, {"", "a", false}, {"a", "", false}, {"*", "", true}, {"**", "", true}, {"?", "", false},
		{"a", "a", true}, {"a", "b", false}, {"a?c", "abc", true}, {"a?c", "ac", false}, {"a*", "a", true},
		{"*c", "abc", true}, {"*c", "cb", false}, {"a*b*c", "a1b2b3c", true}, {"a*b*c", "a1b2", false},
		{"*ab", "aab", true}, {"*a*a", "aa", true}, {"*a*a", "a", false}, {`\*`, "*", true}, {`\*`, "a", false},
		{`a\?`, "a?", true}, {`a\?`, "ab", false}, {`\\`, `\`, true}, {`\`, `\`, true}, {"m5*", "m5.large", true},
		{"*.large", "m5.large", true}, {"*?", "", false}, {"*?", "a", true}, {"a*", "ba", false}, {"abc", "ab", false},
	} {
		if fits, _ := MatchGlob(c.pattern, c.value); fits != c.fits {
			t.Errorf("%q fits %q: %v", c.pattern, c.value, fits)
		}
	}
}

// A pattern costs no more than its length for each character of the value, whatever its wildcards.
func TestWildcardsCostLittle(t *testing.T) {
	t.Parallel()
	value := strings.Repeat("a", 255)
	for _, pattern := range []string{
		strings.Repeat("*?", 120) + "#", strings.Repeat("*a", 120) + "#", strings.Repeat("*", 1000) + "#",
		"*" + strings.Repeat("a", 127) + "#", strings.Repeat("*aaaaaaa", 16) + "#",
	} {
		if fits, steps := MatchGlob(pattern, value); fits || steps > (len(pattern)+1)*(len(value)+1) {
			t.Errorf("%.20s… fits: %v, in %d steps", pattern, fits, steps)
		}
	}
	g := &Globs{Context: t.Context()}
	patterns := make([]string, MaxFilterValues)
	for i := range patterns {
		patterns[i] = "*" + strings.Repeat("a", 127) + "#"
	}
	for range 1000 {
		if g.MatchesAny(patterns, value) {
			t.Fatal("it fits")
		}
	}
	if g.Err == nil || !strings.Contains(fmt.Sprint(g.Err), "take too long") ||
		g.Steps > MaxGlobSteps+len(patterns)*129*256 {
		t.Errorf("%d steps, %v", g.Steps, g.Err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if g = (&Globs{Context: gone}); g.MatchesAny([]string{"a"}, "a") || g.Err == nil || g.Steps > 0 {
		t.Errorf("for a client that is gone: %d steps, %v", g.Steps, g.Err)
	}
}
