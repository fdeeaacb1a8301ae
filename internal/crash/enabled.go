//go:build crashpoints

package crash

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// Enabled reports whether this build can be killed at its points.
const Enabled = true

// Point is an instruction at which the process can be killed. The zero Point is none.
type Point struct {
	name  string
	armed bool
}

var (
	mu     sync.Mutex
	points []string
	dying  sync.Mutex // held for good by whoever kills the process
)

// At defines a point; it is called once for each, from a package's variables.
func At(name string) Point {
	mu.Lock()
	defer mu.Unlock()
	if slices.Contains(points, name) {
		panic(fmt.Sprintf("crash: point %q is defined twice", name))
	}
	points = append(points, name)
	return Point{name: name, armed: slices.Contains(strings.Split(os.Getenv(Environment), ","), name)}
}

// Name returns the point's name.
func (p Point) Name() string { return p.name }

// Here kills the process if it is to die at this point.
func (p Point) Here() {
	if !p.armed {
		return
	}
	dying.Lock() // another thread may still run when the signal is sent, and must not name a second death
	fmt.Fprintf(os.Stderr, "crash: dying at %s as %s demands\n", p.name, Environment)
	if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
		panic(err)
	}
	select {} // the signal is on its way
}

// Points returns the names of all points of the program, sorted.
func Points() []string {
	mu.Lock()
	defer mu.Unlock()
	sorted := slices.Clone(points)
	slices.Sort(sorted)
	return sorted
}
