package logshipper

import (
	"testing"
	"time"
	"unicode/utf8"
)

// FuzzLine shows that whatever a component writes, parts of which its users choose, has a time that can be, and is cut
// between characters.
func FuzzLine(f *testing.F) {
	for _, line := range []string{
		`{"requestReceivedTimestamp":"2026-11-21T10:00:00.000000Z","stageTimestamp":"2026-11-21T10:00:01.999999Z","annotations":{"a":"b"}}`, "I1121 10:36:39.123456    4242 server.go:12] text", "F0229 12:00:00.000000    4242 server.go:12] text",
		`time="2026-11-21T12:36:39+02:00" level=info msg="access granted"`, `{"stageTimestamp":"yesterday"}`, "E0000 00:00:60.000000 é\xe2\x82", "",
	} {
		f.Add(line)
	}
	now := time.Date(2026, 11, 21, 10, 36, 40, 0, time.UTC)
	f.Fuzz(func(t *testing.T, line string) {
		for _, of := range []func(string, time.Time) (int64, bool){auditTime, logfmtTime} {
			of(line, now)
		}
		if at, ok := klogTime(line, now); ok &&
			(at > now.Add(24*time.Hour).UnixMilli() || at < now.AddDate(-2, 0, 0).UnixMilli()) {
			t.Fatalf("%q is of %s", line, time.UnixMilli(at))
		}
		if n := completeLength([]byte(line)); n < 0 || n > len(line) || utf8.ValidString(line) && n != len(line) {
			t.Fatalf("%q is cut at %d", line, n)
		}
	})
}
