package logshipper

import (
	"strings"
	"time"
)

// auditTime returns the stageTimestamp of an audit event. It is the last member but one, before the annotations, which
// have no unescaped quotation marks; the objects of requests and responses come before it.
func auditTime(line string, _ time.Time) (int64, bool) {
	const key = `"stageTimestamp":"`
	i := strings.LastIndex(line, key)
	if i < 0 {
		return 0, false
	}
	text, _, _ := strings.Cut(line[i+len(key):], `"`)
	t, err := time.Parse(time.RFC3339, text)
	return t.UnixMilli(), err == nil
}

// klogTime returns the time in the header of a line of a Kubernetes component, "I1121 10:36:40.123456 4242 file.go:12]
// text", in UTC, which is the components' time zone. The header has no year: klogTime takes the latest one that does
// not put the time into the future.
func klogTime(line string, now time.Time) (int64, bool) {
	const header = "I0102 15:04:05.000000"
	if len(line) < len(header) || !strings.ContainsRune("IWEF", rune(line[0])) || line[5] != ' ' || line[8] != ':' ||
		line[11] != ':' || line[14] != '.' {
		return 0, false
	}
	month, day := parseDigits(line[1:3]), parseDigits(line[3:5])
	hour, minute, second, micros := parseDigits(line[6:8]), parseDigits(line[9:11]), parseDigits(line[12:14]),
		parseDigits(line[15:21])
	if month < 1 || month > 12 || day < 1 || day > 31 || hour < 0 || hour > 23 || minute < 0 || minute > 59 ||
		second < 0 || second > 60 || micros < 0 {
		return 0, false
	}
	// A line is not from the future, but the next year may just have begun.
	for year := now.UTC().Year() + 1; ; year-- {
		t := time.Date(year, time.Month(month), day, hour, minute, second, micros*1000, time.UTC)
		if t.Sub(now) <= 24*time.Hour {
			return t.UnixMilli(), true
		}
	}
}

// parseDigits parses a number; it returns -1 for text that is not a number.
func parseDigits(s string) int {
	n := 0
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return -1
		}
		n = 10*n + int(s[i]-'0')
	}
	return n
}

// logfmtTime returns the time at the beginning of a line of aws-iam-authenticator, `time="2026-11-21T10:36:40Z"
// level=info`.
func logfmtTime(line string, _ time.Time) (int64, bool) {
	text, ok := strings.CutPrefix(line, `time="`)
	if !ok {
		return 0, false
	}
	text, _, _ = strings.Cut(text, `"`)
	t, err := time.Parse(time.RFC3339, text)
	return t.UnixMilli(), err == nil
}
