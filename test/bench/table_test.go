package bench

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"text/tabwriter"
	"time"
)

// row is one line of the table: what was measured, the goal, and what it stands beside.
type row struct{ what, measured, goal, beside string }

var (
	mu   sync.Mutex
	rows []row
)

func report(r row) {
	mu.Lock()
	defer mu.Unlock()
	rows = append(rows, r)
}

// programs are what the test program is when its first argument says so.
var programs = map[string]func(args []string) error{}

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == etcdArgument {
		fmt.Fprintln(os.Stderr, etcd(os.Args[2:]))
		os.Exit(1)
	}
	if len(os.Args) == 4 && os.Args[1] == createFiles {
		if err := runCreateFiles(os.Args[2], os.Args[3]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) > 1 && programs[os.Args[1]] != nil {
		if err := programs[os.Args[1]](os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	code := m.Run()
	if len(rows) > 0 {
		w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "\nWHAT\tMEASURED\tGOAL\tBESIDE")
		for _, r := range rows {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", r.what, r.measured, r.goal, r.beside)
		}
		w.Flush()
	}
	os.Exit(code)
}

// quantile returns the q-th quantile of durations, 0 to 1.
func quantile(d []time.Duration, q float64) time.Duration {
	s := slices.Sorted(slices.Values(d))
	return s[min(len(s)-1, int(q*float64(len(s))))]
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }
