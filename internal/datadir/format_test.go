package datadir

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

func TestFormat(t *testing.T) {
	t.Parallel()
	dir := Dir(t.TempDir())
	if err := dir.CheckFormat(); err != nil {
		t.Errorf("without a number: %v", err)
	}
	if err := dir.WriteFormat("v1.2.3"); err != nil {
		t.Fatal(err)
	}
	if err := dir.CheckFormat(); err != nil {
		t.Errorf("of this version: %v", err)
	}
	for content, want := range map[string]string{
		fmt.Sprintf(`{"format":%d,"version":"v9.9.9"}`, Format+1): "written by coracle v9.9.9",
		`{"format":0,"version":"v0.0.1"}`:                         "",
		`{"format"`:                                               "format.json",
	} {
		if err := os.WriteFile(dir.FormatFile(), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		err := dir.CheckFormat()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", content, err, want)
		}
	}
}
