package endpoint

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/coracle-eks/coracle/internal/crash"
	"github.com/coracle-eks/coracle/internal/process"
)

// crashWritten is between the file of a process and the word to read it.
var crashWritten = crash.At("endpoint/written")

// Process is a process that applies a [Config]: the daemon's side of [Serve].
type Process struct {
	Host Host
	// Name is its name among the processes of its owner.
	Name string
	// Dir is its directory, on a short path because there are unix sockets in it.
	Dir string
	// LogFile is for what it has to say.
	LogFile string
	// Program is this program; the process is its command "endpoint".
	Program string
	// MemoryLimit is what its garbage collector aims at: "64MiB". Below it, the heap grows by GarbagePercent before it is
	// collected, 50 when 0: less takes more of a processor, more takes more memory.
	MemoryLimit    string
	GarbagePercent int
	// Revision is another where a process of an earlier version of this program must not go on; "1" when empty.
	Revision string

	mu       sync.Mutex
	written  []byte            // what the process has read
	problems map[string]string // that it has said then
}

// Apply makes the process run and read a configuration. It returns what it cannot do, by key. A process that has read
// the configuration already is not told again, but with again.
func (p *Process) Apply(ctx context.Context, config Config, again bool) (problems map[string]string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	started, err := p.Host.Ensure(ctx, p.spec())
	if err != nil {
		return nil, fmt.Errorf("start the process %s: %w", p.Name, err)
	}
	if bytes.Equal(text, p.written) && !again && started.Running {
		return p.problems, nil // and a process that has started since has read it
	}
	p.written = nil
	if err := writeConfig(p.Dir, text); err != nil {
		return nil, fmt.Errorf("tell the process %s what to do: %w", p.Name, err)
	}
	crashWritten.Here()
	answer, err := p.notify(ctx)
	if err != nil {
		return nil, fmt.Errorf("the process %s does not answer (its log is %s): %w", p.Name, p.LogFile, err)
	}
	p.written, p.problems = text, answer.Problems
	return p.problems, nil
}

// spec returns the spec of the process. Its arguments stay the same: a change would replace the process, and break
// every connection.
func (p *Process) spec() process.Spec {
	return process.Spec{
		Name: p.Name,
		Path: p.Program,
		Args: []string{"endpoint", "--dir", p.Dir},
		Env: []string{
			"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
			"HOME=" + filepath.Dir(p.LogFile),
			"GOGC=" + strconv.Itoa(cmp.Or(p.GarbagePercent, 50)), "GOMEMLIMIT=" + p.MemoryLimit,
		},
		Dir:         "/",
		Log:         p.LogFile,
		Grace:       5 * time.Second,
		OOMScoreAdj: process.EndpointOOMScoreAdj,
		Revision:    cmp.Or(p.Revision, "1"),
	}
}

// notify makes the process read its file, and returns its report. It waits a moment for a process that is starting.
func (p *Process) notify(ctx context.Context) (r report, err error) {
	ctx, cancel := context.WithTimeout(ctx, controlTime)
	defer cancel()
	wait := time.NewTicker(10 * time.Millisecond)
	defer wait.Stop()
	for {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", controlSocket(p.Dir))
		if err == nil {
			deadline, _ := ctx.Deadline()
			err = errors.Join(conn.SetDeadline(deadline), json.NewDecoder(conn).Decode(&r), conn.Close())
			if err == nil {
				return r, nil
			}
		}
		select {
		case <-ctx.Done():
			return r, err
		case <-wait.C:
		}
	}
}
