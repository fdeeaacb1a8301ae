package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// TestLongTextsAreCutInTheLog logs texts of users' programs.
func TestLongTextsAreCutInTheLog(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 1<<20)
	for _, format := range []string{"text", "json"} {
		var out strings.Builder
		log, err := (&serveFlags{logFormat: format}).newLogger(&out)
		if err != nil {
			t.Fatal(err)
		}
		log.Error("failed", "error", fmt.Errorf("%w", errors.New(long)), "text", long, "texts",
			[]string{long}, "bytes", []byte(long), "n", 7, "list", []int{1}, "short", "b")
		if n := out.Len(); n > 5*maxAttr+1024 || !strings.Contains(out.String(), "aaaa ...") {
			t.Errorf("%s: a line of %d bytes", format, n)
		}
		if text := out.String()[out.Len()-32:]; !strings.Contains(text, "7") || !strings.Contains(text, "b") {
			t.Errorf("%s: it ends with %q", format, text)
		}
	}
}
