package logshipper

import (
	"testing"
	"time"

	"github.com/coracle-eks/coracle/internal/kube/componentlog"
)

func TestTimes(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 10, 36, 40, 0, time.UTC)
	newYear := time.Date(2027, 1, 1, 0, 0, 1, 0, time.UTC)
	leap := time.Date(2028, 3, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name string
		of   func(string, time.Time) (int64, bool)
		now  time.Time
		line string
		want string // RFC 3339, "" when the line does not say
	}{
		{"an audit event", auditTime, now,
			`{"requestReceivedTimestamp":"2026-11-21T10:00:00.000000Z","stageTimestamp":"2026-11-21T10:00:01.999999Z","annotations":{"a":"b"}}`, "2026-11-21T10:00:01.999Z"},
		{"one about an object with such a member", auditTime, now,
			`{"responseObject":{"stageTimestamp":"2001-01-01T00:00:00Z"},"stageTimestamp":"2026-11-21T10:00:01.5Z"}`,
			"2026-11-21T10:00:01.5Z"},
		{"one with it in a text behind", auditTime, now,
			`{"stageTimestamp":"2026-11-21T10:00:01.5Z","annotations":{"a":"\"stageTimestamp\":\"2001-01-01T00:00:00Z\""}}`, "2026-11-21T10:00:01.5Z"},
		{"no audit event", auditTime, now, `Error: no`, ""},
		{"one with a bad time", auditTime, now, `{"stageTimestamp":"yesterday"}`, ""},
		{"klog", klogTime, now, "I1121 10:36:39.123456    4242 server.go:12] text", "2026-11-21T10:36:39.123Z"},
		{"klog of a clock that is a little ahead", klogTime, now, "E1121 10:36:50.000000       1 server.go:12] text",
			"2026-11-21T10:36:50Z"},
		{"klog of last year", klogTime, newYear, "W1231 23:59:59.999999    4242 server.go:12] text",
			"2026-12-31T23:59:59.999Z"},
		{"klog of this year", klogTime, newYear, "W0101 00:00:00.500000    4242 server.go:12] text",
			"2027-01-01T00:00:00.5Z"},
		{"klog of a leap day", klogTime, leap, "F0229 12:00:00.000000    4242 server.go:12] text",
			"2028-02-29T12:00:00Z"},
		{"a trace", klogTime, now, "goroutine 1 [running]:", ""},
		{"a word", klogTime, now, "Error", ""},
		{"klog with letters for digits", klogTime, now, "I1121 1o:36:39.123456    4242 server.go:12] text", ""},
		{"klog of no month", klogTime, now, "I1321 10:36:39.123456    4242 server.go:12] text", ""},
		{"the authenticator", logfmtTime, now, `time="2026-11-21T12:36:39+02:00" level=info msg="access granted"`,
			"2026-11-21T10:36:39Z"},
		{"the authenticator, of another mind", logfmtTime, now, `msg="access granted"`, ""},
	} {
		got, ok := c.of(c.line, c.now)
		want, err := time.Parse(time.RFC3339, c.want)
		if ok != (err == nil) || ok && got != want.UnixMilli() {
			t.Errorf("%s: %v, %v, not %s", c.name, time.UnixMilli(got).UTC(), ok, c.want)
		}
	}
}

func TestNamesOfFiles(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct {
		stream string
		aside  bool
	}{
		"kube-apiserver.log":                {"kube-apiserver", false},
		"kube-apiserver-audit-0a1b2c3d.log": {"kube-apiserver-audit", false},
		"kube-apiserver-audit-deadbeef.log": {"kube-apiserver-audit", false},
		auditAside:                          {"kube-apiserver-audit", true},
		componentlog.AuditLog("cafecafe"):   {"kube-apiserver-audit", false},
		componentlog.Rotated(componentlog.AuditLog("cafecafe"), time.Now()): {"kube-apiserver-audit", true},
		"kube-apiserver-audit.log":                            {"kube-apiserver-audit", false},
		"aws-cloud-controller-manager.log":                    {"cloud-controller-manager", false},
		componentlog.Rotated("authenticator.log", time.Now()): {"authenticator", true},
		"kube-proxy.log":                                      {},
		"kube-scheduler.log.1":                                {},
		".rotate-123":                                         {},
	} {
		s, aside, ok := sourceOf(name)
		if s.stream != want.stream || aside != want.aside || ok != (want.stream != "") {
			t.Errorf("%s: %q, %v, %v", name, s.stream, aside, ok)
		}
	}
}
