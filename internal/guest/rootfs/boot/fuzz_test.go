package boot

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// FuzzParse shows that a report, which a machine writes as it likes, becomes one of bounded size that a terminal can
// show.
func FuzzParse(f *testing.F) {
	for _, report := range []string{
		`{"startedAt":"2026-01-02T03:04:05Z","finishedAt":"2026-01-02T03:04:15Z","network":true,"userData":"failed","failure":"user data ended with 1","failedUnits":["kubelet.service"]}`,
		`{"startedAt":"2026-01-02T03:04:05Z","network":false}`,
		`{"failure":"\u001b]0;title\u0007\u202e","failedUnits":["` + strings.Repeat("é", maxText) + `","\ud800"]}`,
		`{"userData":"unknown"}`, `{"startedAt":"never"}`, `[]`, `null`, ``,
		`{"failedUnits":["a"` + strings.Repeat(`,"a"`, maxUnits) + `]}`,
	} {
		f.Add([]byte(report))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Parse(data)
		if err != nil {
			if len(err.Error()) > 1<<10 && len(data) < 1<<10 {
				t.Fatalf("%q: an error of %d bytes", data, len(err.Error()))
			}
			return
		}
		switch r.UserData {
		case "", Running, Succeeded, Failed:
		default:
			t.Fatalf("user data is %q", r.UserData)
		}
		if len(r.FailedUnits) > maxUnits {
			t.Fatalf("%d units", len(r.FailedUnits))
		}
		for _, text := range append(r.FailedUnits, r.Failure) {
			if len(text) > 3*maxText || !utf8.ValidString(text) ||
				strings.ContainsFunc(text, func(c rune) bool { return !unicode.IsPrint(c) }) {
				t.Fatalf("%q has the text %q", data, text)
			}
		}
	})
}
