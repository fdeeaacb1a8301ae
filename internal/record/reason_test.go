package record_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/coracle-eks/coracle/internal/record"
)

func TestReason(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                    "",
		"no luck":                             "no luck",
		strings.Repeat("a", record.MaxReason): strings.Repeat("a", record.MaxReason),
		"a" + strings.Repeat("é", record.MaxReason): "a" + strings.Repeat("é", record.MaxReason/2-3) + " ...",
	} {
		got := record.Reason(text)
		if got != want || !utf8.ValidString(got) || record.Reason(want) != want {
			t.Errorf("%d bytes become %d, such as %.20q", len(text), len(got), got)
		}
	}
}
