package upstream

import (
	"strings"
	"testing"
	"time"
)

func build135() []Progress {
	reports := []Progress{{Title: "Kubernetes 1.35", Step: Downloading}}
	for i := 1; i <= 200; i++ {
		reports = append(reports, Progress{Title: "Kubernetes 1.35", Step: Downloading, Done: i})
	}
	for i := 0; i < 2800; i++ {
		reports = append(reports, Progress{
			Title: "Kubernetes 1.35", Step: Compiling, Done: i, Total: 2800, Detail: "k8s.io/kubernetes/pkg/x",
		})
	}
	return append(reports,
		Progress{Title: "Kubernetes 1.35", Step: Linking, Done: 2800, Total: 2800},
		Progress{Title: "Kubernetes 1.35", Step: Ready, Detail: "/bundles/v1.35/kube"})
}

func TestPrinterInAPipeIsALinePerPiece(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	show := Printer(&out, false)
	for _, p := range build135() {
		show(p)
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(lines) < 14 || len(lines) > 18 {
		t.Errorf("%d lines:\n%s", len(lines), out.String())
	}
	if want := "  0%  Kubernetes 1.35: downloading modules"; lines[0] != want {
		t.Errorf("the first line is %q, want %q", lines[0], want)
	}
	if want := "100%  Kubernetes 1.35: ready: /bundles/v1.35/kube"; lines[len(lines)-1] != want {
		t.Errorf("the last line is %q, want %q", lines[len(lines)-1], want)
	}
}

func TestPrinterOfConcurrentBuildsIsALinePerPieceOfEach(t *testing.T) {
	t.Parallel()
	var one, both strings.Builder
	show := Printer(&one, false)
	for _, p := range build135() {
		show(p)
	}
	show = Printer(&both, false)
	for _, p := range build135() {
		show(p)
		p.Title = "programs of nodes"
		show(p)
	}
	if got, want := strings.Count(both.String(), "\n"), 2*strings.Count(one.String(), "\n"); got != want {
		t.Errorf("%d lines for two builds, want %d", got, want)
	}
}

func TestPrinterInATerminalIsABar(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	show := Printer(&out, true)
	for _, p := range build135() {
		show(p)
	}
	if got := strings.Count(out.String(), "\n"); got != 1 {
		t.Errorf("%d lines, want one that is rewritten", got)
	}
	for _, want := range []string{
		"\r\033[K[..............................]   0%  Kubernetes 1.35: downloading modules (7)",
		"\r\033[K[#############.................]  45%  Kubernetes 1.35: compiling 1400 of 2800 packages",
		"\r\033[K[###########################...]  90%  Kubernetes 1.35: linking",
		"\r\033[K[##############################] 100%  Kubernetes 1.35: ready: /bundles/v1.35/kube\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the bar never was %q", want)
		}
	}
}

// A build that takes a second for each ten packages tells how many minutes are left.
func TestPrinterEstimatesWhatIsLeft(t *testing.T) {
	t.Parallel()
	for _, terminal := range []bool{false, true} {
		var out strings.Builder
		var now time.Time
		show := printer(&out, terminal, func() time.Time { return now })
		for _, p := range build135() {
			now = now.Add(100 * time.Millisecond)
			show(p)
		}
		for _, want := range []string{
			"  0%  Kubernetes 1.35: compiling 0 of 2800 packages", // it is too early to tell
			" 50%  Kubernetes 1.35: compiling 1556 of 2800 packages, about 3 min left",
			" 80%  Kubernetes 1.35: compiling 2489 of 2800 packages, about 1 min left",
			" 90%  Kubernetes 1.35: linking",
		} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("nothing is %q", want)
			}
		}
		if strings.Contains(out.String(), "compiling 0 of 2800 packages,") {
			t.Error("an estimate before anything is done")
		}
	}
}
