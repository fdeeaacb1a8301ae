package process

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The marks that every process carries in its environment.
const (
	mark      = "CORACLE_PROCESS="
	specMark  = "CORACLE_PROCESS_SPEC="
	proofMark = "CORACLE_PROCESS_PROOF="
)

// Identity distinguishes the processes of one owner from all others.
type Identity struct {
	// Owner is public: it follows from the path of the data directory.
	Owner string
	// Key signs the marks. Without one, no process can be verified.
	Key []byte
}

// signMark signs a mark. Neither part can hold a NUL: both are read from an environment.
func (id Identity) signMark(name, hash string) string {
	mac := hmac.New(sha256.New, id.Key)
	for _, part := range []string{id.Owner, name, hash} {
		mac.Write([]byte(part))
		mac.Write([]byte{0})
	}
	return hex.EncodeToString(mac.Sum(nil))
}

// verifies reports whether the owner of the key started the process, or an ancestor from which it inherited its marks.
func (id Identity) verifies(f Found) bool {
	return len(id.Key) > 0 && f.Owner == id.Owner && hmac.Equal([]byte(f.proof), []byte(id.signMark(f.Name, f.Hash)))
}

// Found is a marked process.
type Found struct {
	PID     int
	Name    string
	Hash    string
	Started time.Time
	// Leader is set for a process that leads its session, as every process does that a Supervisor starts.
	// Others are descendants of one.
	Leader bool
	// Owner is the owner of the process, as it claims.
	Owner string

	proof   string
	start   uint64 // in clock ticks since boot, on macOS in microseconds since 1970
	session int
}

// Find returns every process that carries a mark signed by id, leaders and descendants.
func Find(id Identity) ([]Found, error) {
	claims, err := Claims(id.Owner)
	return slices.DeleteFunc(claims, func(f Found) bool { return !id.verifies(f) }), err
}

// Claims returns every process of this user, in the user and PID namespaces of this program, that carries a mark of
// owner, or of any owner if that is empty, whether the mark is signed or not. A mark alone proves little: a user
// can put one into the environment of a set-user-ID program. So claims are good for reporting, and for ending what
// claims to be ours, and for nothing else.
func Claims(owner string) ([]Found, error) {
	view, err := openView()
	if err != nil {
		return nil, err
	}
	var found []Found
	for _, pid := range listPIDs() {
		if f, ok := view.inspect(pid); ok && (owner == "" || f.Owner == owner) {
			found = append(found, f)
		}
	}
	return found, nil
}

// ErrNotRunning is the error of Hold when no process has the name.
var ErrNotRunning = errors.New("no such process")

// AmbiguousError reports that several processes carry the same signed mark. One of them was started by the
// daemon; another copied its environment, or inherited it and started a session of its own. Nothing tells them apart,
// so none is used or ended.
type AmbiguousError struct {
	Name string
	PIDs []int
}

func (e *AmbiguousError) Error() string {
	var words, numbers []string
	for _, pid := range e.PIDs {
		words = append(words, strconv.Itoa(pid)+commandOf(pid))
		numbers = append(numbers, strconv.Itoa(pid))
	}
	return fmt.Sprintf(
		"processes %s all carry the mark of %s: compare them with \"ps -o pid,ppid,lstart,args -p %s\" and kill "+
			"those that are not %s",
		strings.Join(words, " and "), e.Name, strings.Join(numbers, ","), e.Name)
}

// commandOf returns " (name)" of a process, if the kernel knows it.
func commandOf(pid int) string {
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return ""
	}
	return " (" + strings.TrimSpace(string(name)) + ")"
}

// Ambiguous returns an AmbiguousError for each name that several of the leaders have.
func Ambiguous(found []Found) []*AmbiguousError {
	byName := map[string]*AmbiguousError{}
	var all []*AmbiguousError
	for _, f := range found {
		if !f.Leader {
			continue
		}
		e := byName[f.Name]
		if e == nil {
			e = &AmbiguousError{Name: f.Name}
			byName[f.Name] = e
			all = append(all, e)
		}
		e.PIDs = append(e.PIDs, f.PID)
	}
	for _, e := range all {
		slices.Sort(e.PIDs)
	}
	return slices.DeleteFunc(all, func(e *AmbiguousError) bool { return len(e.PIDs) < 2 })
}

// Handle refers to one process, also after its number is used again.
type Handle struct{ r *running }

// Hold returns a handle of the process that a Supervisor of id runs under name. The error is ErrNotRunning if there
// is none, and an *AmbiguousError if there are several.
func Hold(id Identity, name string) (*Handle, error) {
	found, err := Find(id)
	if err != nil {
		return nil, err
	}
	found = slices.DeleteFunc(found, func(f Found) bool { return !f.Leader || f.Name != name })
	if ambiguous := Ambiguous(found); len(ambiguous) > 0 {
		return nil, ambiguous[0]
	}
	if len(found) == 0 {
		return nil, ErrNotRunning
	}
	r, err := adoptProcess(found[0])
	if errors.Is(err, errGone) {
		return nil, ErrNotRunning
	}
	if err != nil {
		return nil, err
	}
	return &Handle{r}, nil
}

// PID returns the number of the process.
func (h *Handle) PID() int { return h.r.pid }

// Alive reports whether the process still runs. While it does, PID is its number, and what was read from /proc since
// Hold was about it.
func (h *Handle) Alive() bool { return h.r.isAlive() }

// Close releases the process; it runs on.
func (h *Handle) Close() { h.r.release() }

// Kill ends every process that claims to be owner's (see Claims), at once. It is for "coracle reset", when no
// supervisor of the owner runs any more, and needs no key, because that may be lost. The error is ErrStuck for a
// process that does not end.
func Kill(owner string) (killed int, err error) {
	if owner == "" {
		return 0, errors.New("kill processes: no owner")
	}
	for range 100 {
		found, err := Claims(owner)
		if err != nil || len(found) == 0 {
			return killed, err
		}
		for _, f := range found {
			r, err := adoptProcess(f)
			if errors.Is(err, errGone) {
				continue
			}
			if err != nil {
				return killed, err
			}
			if err := r.sendSignal(syscall.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
				return killed, fmt.Errorf("kill process %d (%s): %w", f.PID, f.Name, err)
			}
			if err := awaitKilled(r); err != nil {
				return killed, fmt.Errorf("process %d (%s) %w", f.PID, f.Name, err)
			}
			killed++
		}
	}
	return killed, fmt.Errorf("processes of %s keep appearing: is a daemon still running?", owner)
}

func awaitKilled(r *running) error {
	ended := make(chan error, 1)
	go func() {
		_, err := r.wait()
		ended <- err
	}()
	select {
	case err := <-ended:
		return err
	case <-time.After(killPatience):
		return ErrStuck
	}
}

// readMarks reads the marks among the variables of an environment, and reports whether they name a process.
func (f *Found) readMarks(environ iter.Seq[string]) bool {
	for v := range environ {
		if m, ok := strings.CutPrefix(v, mark); ok {
			f.Owner, f.Name, _ = strings.Cut(m, "/")
		} else if h, ok := strings.CutPrefix(v, specMark); ok {
			f.Hash = h
		} else if p, ok := strings.CutPrefix(v, proofMark); ok {
			f.proof = p
		}
	}
	return f.Owner != "" && f.Name != ""
}
