package process

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"
)

// Spec describes a process to run. Two specifications with the same Hash run the same.
type Spec struct {
	// Name identifies the process among those of its owner: "<cluster ID>/kube-apiserver".
	Name string
	Path string
	// Args are the arguments, without the program's name.
	Args []string
	// Env is the whole environment beside the two marks.
	Env []string
	Dir string
	// Revision stands for what the process reads only when it starts: another restarts it.
	Revision string

	// Log is the file that its output is appended to. Of what it holds the last LogLimit bytes (20 MiB when 0) are
	// kept; see Trim. Where it is negative, the owner of the process calls Trim.
	Log      string
	LogLimit int64
	// Grace is the time between SIGTERM and SIGKILL; 10 s when 0.
	Grace time.Duration
	// OOMScoreAdj is the adjustment of the kernel's badness score when memory runs out, -1000 to 1000. That of the
	// daemon is not inherited.
	OOMScoreAdj int
	// MemoryLimit bounds its private memory in bytes (RLIMIT_DATA), no bound when 0: a Go program ends with "out of
	// memory" beyond it. It holds where the daemon may not write cgroups, too. Like the score, it does not count for
	// Hash.
	MemoryLimit uint64
	// ConnectPorts are the only TCP ports that the process may connect to, at whatever address; any when empty. What it
	// talks to may send it elsewhere, into the networks of the host. It holds where the kernel has Landlock's rules of
	// networks (Linux 6.7), and not on macOS: see CheckConfinement.
	ConnectPorts []int
}

// Hash identifies what the process runs; how it is logged and stopped does not count.
func (s Spec) Hash() string {
	fields := []any{s.Path, s.Args, s.Env, s.Dir, s.Revision}
	if len(s.ConnectPorts) > 0 { // the others keep the hash that they had before there were any
		fields = append(fields, s.ConnectPorts)
	}
	b, err := json.Marshal(fields)
	if err != nil {
		panic(err) // strings always marshal
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:12])
}

func (s Spec) gracePeriod() time.Duration {
	if s.Grace == 0 {
		return 10 * time.Second
	}
	return s.Grace
}

func (s Spec) logLimit() int64 {
	if s.LogLimit == 0 {
		return 20 << 20
	}
	return s.LogLimit
}
