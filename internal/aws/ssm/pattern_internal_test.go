package ssm

import (
	"runtime"
	"strings"
	"testing"
)

// TestPatternsAreBoundedBeforeTheyAreCompiled has patterns of 1,024 characters, whose programs have 1.5 million
// instructions. It counts what the process allocates, so it runs alone.
func TestPatternsAreBoundedBeforeTheyAreCompiled(t *testing.T) {
	for _, pattern := range []string{"(" + strings.Repeat("()", 505) + "){1000}", "(?:" + strings.Repeat("a?", 505) +
		"){1000}"} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := compilePattern(pattern)
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), "use smaller counts") {
			t.Errorf("%.10s: %v", pattern, err)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
			t.Errorf("%.10s takes %d bytes to be refused", pattern, n)
		}
	}
}
