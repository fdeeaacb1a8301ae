package upstream

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Step is a stage of a build.
type Step string

// The steps, in their order.
const (
	Waiting     Step = "waiting for another process that builds it"
	Downloading Step = "downloading modules"
	Fetching    Step = "downloading packages"
	Compiling   Step = "compiling"
	Linking     Step = "linking"
	Ready       Step = "ready"
)

// Progress is one report of a build.
type Progress struct {
	Title string // what is built: "Kubernetes 1.35"
	Step  Step
	Done  int // modules or packages downloaded, or packages compiled
	Total int // packages to download or to compile; 0 while it is not known

	// Detail is the module, the package or, at the end, the file.
	Detail string
}

// Percent returns how much of the compilation is done. Linking, about a tenth of a cold build, is the rest to 100.
func (p Progress) Percent() int {
	switch {
	case p.Step == Ready:
		return 100
	case p.Step == Linking:
		return 90
	case (p.Step == Compiling || p.Step == Fetching) && p.Total > 0:
		return p.Done * 90 / p.Total
	}
	return 0
}

func (p Progress) String() string {
	text := fmt.Sprintf("%s: %s", p.Title, p.Step)
	switch {
	case p.Step == Ready:
		return text + ": " + p.Detail
	case p.Step == Compiling && p.Total > 0:
		return fmt.Sprintf("%s %d of %d packages", text, p.Done, p.Total)
	case p.Step == Fetching && p.Total > 0:
		return fmt.Sprintf("%s (%d of %d)", text, p.Done, p.Total)
	case p.Step == Downloading && p.Done > 0:
		return fmt.Sprintf("%s (%d)", text, p.Done)
	}
	return text
}

// builds are the builds under way, with the newest report of each.
type builds struct {
	mu  sync.Mutex
	all map[*sharedBuild]Progress
}

// running are those of this process.
var running = builds{all: map[*sharedBuild]Progress{}}

func (b *builds) report(of *sharedBuild, p Progress) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all[of] = p
}

func (b *builds) end(of *sharedBuild) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.all, of)
}

// Running returns the newest report of each build that is under way in this process, sorted by titles.
func Running() []Progress {
	running.mu.Lock()
	defer running.mu.Unlock()
	return slices.SortedFunc(maps.Values(running.all), func(a, b Progress) int {
		return strings.Compare(a.Title, b.Title)
	})
}

// Milestones passes on the reports that are worth a line in a log: for each build every new step, every fifty modules
// and every tenth of the compilation. Builds may run at the same time.
func Milestones(report func(Progress)) func(Progress) {
	var mu sync.Mutex
	last := make(map[string]Progress) // by title
	return func(p Progress) {
		mu.Lock()
		defer mu.Unlock()
		before := last[p.Title]
		last[p.Title] = p
		if p.Step != before.Step || p.Percent()/10 != before.Percent()/10 ||
			p.Step == Downloading && p.Done/50 != before.Done/50 {
			report(p)
		}
	}
}

// Printer reports progress to a person, with an estimate of what is left: in a terminal as a bar, elsewhere as a line
// per milestone.
func Printer(w io.Writer, terminal bool) func(Progress) { return printer(w, terminal, time.Now) }

func printer(w io.Writer, terminal bool, now func() time.Time) func(Progress) {
	left := estimator(now)
	if !terminal {
		return Milestones(func(p Progress) { fmt.Fprintf(w, "%3d%%  %s%s\n", p.Percent(), p, left(p)) })
	}
	return func(p Progress) {
		const width = 30
		filled := p.Percent() * width / 100
		bar := strings.Repeat("#", filled) + strings.Repeat(".", width-filled)
		fmt.Fprintf(w, "\r\033[K[%s] %3d%%  %s%s", bar, p.Percent(), p, left(p))
		if p.Step == Ready {
			fmt.Fprintln(w)
		}
	}
}

// estimator returns a function that tells how long a build will still take, such as ", about 3 min left", by how long
// it has taken since its first package. It tells nothing of less than half a minute, or before a tenth is done.
func estimator(now func() time.Time) func(Progress) string {
	type begun struct {
		step    Step
		percent int
		at      time.Time
	}
	var mu sync.Mutex
	builds := make(map[string]begun) // by title
	return func(p Progress) string {
		mu.Lock()
		defer mu.Unlock()
		b, known := builds[p.Title]
		if !known || b.step != p.Step {
			builds[p.Title] = begun{p.Step, p.Percent(), now()}
			return ""
		}
		done := p.Percent() - b.percent
		if done < 10 {
			return ""
		}
		left := now().Sub(b.at) * time.Duration(100-p.Percent()) / time.Duration(done)
		if minutes := int(left.Round(time.Minute).Minutes()); minutes > 0 {
			return fmt.Sprintf(", about %d min left", minutes)
		}
		return ""
	}
}
