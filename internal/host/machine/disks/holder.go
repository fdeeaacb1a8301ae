//go:build linux

package disks

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/host/machine/cgroup"
)

// Holder is the argument that makes "coracle-node launch" a process that looks for mounts in a machine: paths there may
// lead into file systems that do not answer, and writes that are held have to go on whatever ends the launcher.
const Holder = "hold"

// task is the line with which the launcher starts a holder.
type task struct {
	Freeze            bool // otherwise unmount
	Owner, InstanceID string
	Loops             []int
	// Users is the descriptor of the machine's user namespace; 0: it has none.
	Users int
}

// report is a line of a holder.
type report struct {
	State string
	Error string `json:",omitempty"`
}

// States of a holder.
const (
	nothing  = "nothing"  // there is no file system, or nothing that writes
	found    = "found"    // it freezes the file system when it is sent a line
	frozen   = "frozen"   // until its standard input ends, or freezeLimit has passed
	finished = "finished" // it has thawed or unmounted it
	failed   = "failed"   // and nothing is frozen
	stuck    = "stuck"    // it could not thaw it
)

// freezeLimit bounds the time for which writes are held: programs that wait for a disk get into trouble after some.
const freezeLimit = 60 * time.Second

// HolderMain is the program "coracle-node launch hold". It returns the exit status.
func HolderMain() int {
	// Nothing that is sent to the launcher, too, ends it while writes are held, nor a launcher that reads no more.
	signal.Ignore(unix.SIGPIPE, unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	input := bufio.NewReader(os.Stdin)
	var t task
	line, err := input.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &t)
	}
	var r report
	if err == nil {
		r, err = t.run(input)
	}
	if err != nil {
		r = report{failed, err.Error()}
	}
	if writeReport(r) != nil {
		return 1
	}
	return 0
}

func writeReport(r report) error { return json.NewEncoder(os.Stdout).Encode(r) }

func (t task) run(input *bufio.Reader) (report, error) {
	host, err := cgroup.Open()
	if err != nil {
		return report{}, err
	}
	group := host.Group(t.Owner, t.InstanceID)
	var users *os.File
	if t.Users != 0 {
		users = os.NewFile(uintptr(t.Users), "users")
	}
	if !t.Freeze {
		return report{State: finished}, unmountAll(group, users, t.Loops)
	}
	var f *os.File
	if err := eachPlace(group, users, t.Loops, func(p place) bool {
		f, err = p.openContent()
		return err != nil
	}); err != nil {
		return report{}, err
	}
	if f == nil {
		return report{State: nothing}, nil
	}
	return freeze(f, input)
}

// Requests of ioctl(2): FIFREEZE and FITHAW.
const (
	freezeRequest = 0xc0045877
	thawRequest   = 0xc0045878
)

// freeze holds writes of a file system until there is no more input. It waits for writers, which the kernel lets nobody
// end: whatever happens meanwhile, the file system is thawed afterwards.
func freeze(f *os.File, input *bufio.Reader) (report, error) {
	if err := writeReport(report{State: found}); err != nil {
		return report{}, err
	}
	if _, err := input.ReadBytes('\n'); err != nil {
		return report{}, err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, input)
	}()
	if err := ioctl(f, freezeRequest, 0); errors.Is(err, unix.EROFS) {
		return report{State: nothing}, nil
	} else if err != nil {
		return report{}, fmt.Errorf("hold writes of the file system: %w", err)
	}
	limit := time.NewTimer(freezeLimit)
	if writeReport(report{State: frozen}) == nil {
		select {
		case <-ended:
		case <-limit.C:
		}
	}
	if err := ioctl(f, thawRequest, 0); err != nil && !errors.Is(err, unix.EINVAL) { // somebody else has thawed it
		return report{stuck, fmt.Sprintf("let writes of the file system go on: %v", err)}, nil
	}
	return report{State: finished}, nil
}
