package audit_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/coracle-eks/coracle/internal/audit"
)

var update = flag.Bool("update", false, "write the golden files")

// tell runs the command over a log, at noon of the day on which the corpus was recorded.
func tell(t testing.TB, logs *fakeLogs, args, namespace string, change func(*audit.Options)) (
	out, notes string, err error) {
	t.Helper()
	targets, err := audit.Targets(words(args), namespace)
	if err != nil {
		t.Fatal(err)
	}
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	o := audit.Options{Targets: targets, Now: func() time.Time { return noon }, Poll: time.Millisecond,
		Every: time.Millisecond, Style: audit.Style{Width: 80}}
	o.Style.Many = targets[0].Name == "" || len(targets) > 1
	if change != nil {
		change(&o)
	}
	o.Style.Wide = o.Output == "wide"
	var stdout, stderr bytes.Buffer
	err = audit.Run(t.Context(), &stdout, &stderr, fakeClusters{"dev": true}, logs, o)
	return stdout.String(), stderr.String(), err
}

// golden compares with a file of testdata.
func golden(t testing.TB, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (go test ./internal/audit -update writes it): -want +got\n%s", file, diff)
	}
}

// stories are told from events that a real cluster logged (testdata/README.md says how).
var stories = []struct{ corpus, args, namespace string }{
	{"aws-node", "daemonset/aws-node", "kube-system"},
	{"unseen", "ds aws-node", "kube-system"},
	{"web", "deploy.apps/web", "shop"},
	{"probe", "po/probe", "shop"},
	{"collection", "pod web-596c4f4f6d-f5cps", "shop"},
	{"namespace", "statefulsets/db", "shop"},
	{"db", "sts/db", "shop"},
	{"settings", "cm settings", "shop"},
	{"service", "svc/web", "shop"},
	{"aws-auth", "configmap/aws-auth", "kube-system"},
	{"boats", "boat/coracle", "shop"},
}

func TestStories(t *testing.T) {
	t.Parallel()
	for _, s := range stories {
		t.Run(s.corpus, func(t *testing.T) {
			t.Parallel()
			out, notes, err := tell(t, corpus(t, s.corpus), s.args, s.namespace, nil)
			if err != nil || notes != "" {
				t.Fatalf("%v\n%s", err, notes)
			}
			golden(t, s.corpus+".txt", out)
		})
	}
}

func TestWide(t *testing.T) {
	t.Parallel()
	out, _, err := tell(t, corpus(t, "probe"), "pod/probe", "shop", func(o *audit.Options) {
		o.Output,
			o.Style.Width = "wide", 120
	})
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "probe.wide.txt", out)
}

func TestJSON(t *testing.T) {
	t.Parallel()
	out, _, err := tell(t, corpus(t, "aws-node"), "ds/aws-node", "kube-system",
		func(o *audit.Options) { o.Output = "json" })
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "aws-node.json", out)
}

func TestTimelineOfAType(t *testing.T) {
	t.Parallel()
	all := []string{"aws-node", "web", "probe", "collection", "service"}
	out, _, err := tell(t, corpus(t, all...), "pods,svc", "", func(o *audit.Options) { o.Style.Kinds = true })
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "timeline.txt", out)
}

var escapes = regexp.MustCompile("\x1b\\[[0-9;]*m")

// TestWidth prints every timeline in every width: no line is longer unless it is a word that can't be cut, and colors
// change nothing but colors.
func TestWidth(t *testing.T) {
	t.Parallel()
	for _, s := range stories {
		for _, width := range []int{40, 60, 80, 100, 200} {
			out, _, err := tell(t, corpus(t, s.corpus), s.args, s.namespace,
				func(o *audit.Options) { o.Style.Width = width })
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(out) {
				line = strings.TrimSuffix(line, "\n")
				if n := utf8.RuneCountInString(line); n > width {
					t.Errorf("%s: a line of %d columns in %d:\n%s", s.corpus, n, width, line)
				}
				if strings.TrimRight(line, " ") != line {
					t.Errorf("%s in %d columns: %q ends with a space", s.corpus, width, line)
				}
			}
			colored, _, err := tell(t, corpus(t, s.corpus), s.args, s.namespace, func(o *audit.Options) {
				o.Style.Width,
					o.Style.Color = width, true
			})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(out, escapes.ReplaceAllString(colored, "")); diff != "" || out == colored {
				t.Errorf("%s in %d columns: with colors the text is another:\n%s", s.corpus, width, diff)
			}
		}
	}
}
