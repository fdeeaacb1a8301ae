package conformance

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const list = `
- testname: A
  codename: '[sig-a] A should
    pass [Conformance]'
  release: v1.9
- codename: '[sig-a] B should pass [Conformance]'
- codename: '[sig-a] C should pass [Conformance]'
- codename: '[sig-a] D should pass [Conformance]'
- codename: '[sig-b] E should pass [Conformance]'
`

const report = `<?xml version="1.0" encoding="UTF-8"?>
<testsuites><testsuite>
<testcase name="[SynchronizedBeforeSuite]" status="passed"></testcase>
<testcase name="[It] [sig-a] A should pass [Conformance] [sig-a, Conformance]" status="passed"></testcase>
<testcase name="[It] [sig-a] B should pass [Conformance] [sig-a, Serial, Conformance]" status="failed">
<failure message="no pod">at</failure></testcase>
<testcase name="[It] [sig-a] C should pass [Conformance]" status="skipped"></testcase>
<testcase name="[It] [sig-a] D should pass [Conformance]" status="passed"></testcase>
<testcase name="[It] [sig-z] Other" status="passed"></testcase>
</testsuite></testsuites>`

// TestCompare shows what a report is held against: every test of the list, whether it ran or not.
func TestCompare(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "junit.xml")
	if err := os.WriteFile(file, []byte(report), 0o600); err != nil {
		t.Fatal(err)
	}
	names, err := readList([]byte(list))
	if err != nil {
		t.Fatal(err)
	}
	outcomes, err := readReports(file)
	if err != nil {
		t.Fatal(err)
	}
	exceptions, err := readExceptions([]byte(`
- {codename: "[sig-a] D should pass [Conformance]", reason: it did not}
- {codename: "[sig-b] E should pass [Conformance]", reason: it cannot}
- {codename: "[sig-b] F should pass [Conformance]", reason: it was}
`))
	if err != nil {
		t.Fatal(err)
	}
	for focus, want := range map[string][]string{
		"": {
			"[sig-b] F should pass [Conformance]: an exception, and no conformance test of this version",
			"[sig-a] B should pass [Conformance]: failed: no pod",
			"[sig-a] C should pass [Conformance]: did not run",
			"[sig-a] D should pass [Conformance]: an exception, and it passes: remove the exception",
		},
		"A should": {"[sig-b] F should pass [Conformance]: an exception, and no conformance test of this version"},
	} {
		passed, problems, err := compare(names, outcomes, exceptions, focus)
		if err != nil || passed != 1 {
			t.Errorf("focus %q: %d passed, %v", focus, passed, err)
		}
		if d := cmp.Diff(want, problems); d != "" {
			t.Errorf("focus %q: %s", focus, d)
		}
	}
	if _, err := readExceptions([]byte(`[{codename: x}]`)); err == nil {
		t.Error("an exception needs no reason")
	}
}
