package logging

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
)

// source is one component's log.
type source struct {
	kind ekstypes.LogType
	// stream is how the names of its streams begin; the ID of the control-plane instance follows.
	stream string
	// time is when a line was written, in milliseconds since 1970 UTC; false when it does not say.
	time func(line string, now time.Time) (int64, bool)
	// full is the length at which the file is put aside for another, 0 when it never is.
	full int64
}

// The audit log of an API server is a file of its own, because two API servers run side by side while
// one takes over from the other, and the library that rotates audit logs believes to be alone.
const (
	auditPrefix = "kube-apiserver-audit"
	asideTime   = "2006-01-02T15-04-05.000" // as lumberjack has it
)

const (
	// AuditMaxSize is the size in MiB at which an API server puts its audit log aside.
	AuditMaxSize = 50
	// AuthenticatorMaxSize is the size in bytes at which the authenticator's log is put aside.
	AuthenticatorMaxSize = 32 << 20
)

// AuditLog is the name of the file that an API server writes its audit log to. The instance tells the
// API servers of a cluster apart: eight lower-case hexadecimal digits.
func AuditLog(instance string) string { return auditPrefix + "-" + instance + ".log" }

// logName takes the name of a log apart: the component, the instance, and when it was put aside.
var logName = regexp.MustCompile(`^([a-z-]+?)(-[0-9a-f]{8})?(-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d{3})?\.log$`)

// Aside is the path to which a log is moved that is full, or that nobody writes any more. It is removed
// there once it is shipped or not wanted.
func Aside(log string, now time.Time) string {
	return strings.TrimSuffix(log, ".log") + "-" + now.UTC().Format(asideTime) + ".log"
}

// RetireAuditLogs puts the audit logs of all API servers but one in dir aside, as an API server does
// when its own is full: nobody writes them any more. Those API servers must not run.
func RetireAuditLogs(dir, instance string, now time.Time) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		source, aside, ok := sourceOf(e.Name())
		if !ok || aside || source.kind != ekstypes.LogTypeAudit || e.Name() == AuditLog(instance) {
			continue
		}
		path := filepath.Join(dir, e.Name())
		if err := os.Rename(path, Aside(path, now)); err != nil {
			return err
		}
	}
	return nil
}

// sources are the components' logs by the names of their files.
var sources = map[string]source{
	"kube-apiserver":               {ekstypes.LogTypeApi, "kube-apiserver", klogTime, 0},
	auditPrefix:                    {ekstypes.LogTypeAudit, auditPrefix, auditTime, AuditMaxSize << 20},
	"authenticator":                {ekstypes.LogTypeAuthenticator, "authenticator", logfmtTime, AuthenticatorMaxSize},
	"kube-controller-manager":      {ekstypes.LogTypeControllerManager, "kube-controller-manager", klogTime, 0},
	"aws-cloud-controller-manager": {ekstypes.LogTypeControllerManager, "cloud-controller-manager", klogTime, 0},
	"kube-scheduler":               {ekstypes.LogTypeScheduler, "kube-scheduler", klogTime, 0},
}

// sourceOf is whose log a file is, and whether it has been put aside, so that nobody writes it any more.
func sourceOf(name string) (s source, aside, ok bool) {
	m := logName.FindStringSubmatch(name)
	if m == nil {
		return s, false, false
	}
	s, ok = sources[m[1]]
	return s, m[3] != "", ok
}

// fileID is which file something is, whatever it is called by now. File systems use the number of an inode
// again soon after a file was deleted, so the time of its birth belongs to it.
type fileID struct {
	Inode uint64
	Born  int64 `json:",omitempty"` // in nanoseconds since 1970 UTC; 0 where the file system doesn't know
}

// file is one that is open for reading.
type file struct {
	*os.File
	source
	fileID
	name  string
	aside bool
}

func open(dir, name string) (*file, error) {
	source, aside, _ := sourceOf(name)
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return nil, err
	}
	id, err := identify(int(f.Fd()), "")
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &file{File: f, source: source, fileID: id, name: name, aside: aside}, nil
}

// openAll opens the logs in a directory, those put aside first, in the order in which that happened.
// None is missed that is put aside meanwhile.
func openAll(dir string) (files []*file, err error) {
	defer func() {
		if err != nil {
			closeAll(files)
		}
	}()
	// A file that is put aside after it was found here is open already, and one that was put aside before
	// its successor was opened is found by the second look.
	for _, wantAside := range []bool{false, true} {
		entries, err := os.ReadDir(dir)
		if errors.Is(err, fs.ErrNotExist) {
			return files, nil
		}
		if err != nil {
			return files, err
		}
		for _, e := range entries {
			if _, aside, ok := sourceOf(e.Name()); !ok || aside != wantAside {
				continue
			}
			f, err := open(dir, e.Name())
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return files, err
			}
			if i := slices.IndexFunc(files, func(g *file) bool { return g.fileID == f.fileID }); i >= 0 {
				closeAll(files[i : i+1])
				files = slices.Delete(files, i, i+1)
			}
			files = append(files, f)
		}
	}
	slices.SortStableFunc(files, func(a, b *file) int {
		if a.aside != b.aside {
			if a.aside {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.name, b.name)
	})
	return files, nil
}

func closeAll(files []*file) {
	for _, f := range files {
		f.Close() //nolint:errcheck // only read
	}
}

// size is the file's length now.
func (f *file) size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
