package logshipper

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/kube/componentlog"
)

// source is one component's log.
type source struct {
	kind ekstypes.LogType
	// stream is the prefix of the names of its streams; the ID of the control-plane instance follows.
	stream string
	// time returns the time when a line was written, in milliseconds since 1970 UTC; false when the line does not have
	// it.
	time func(line string, now time.Time) (int64, bool)
	// full is the length at which the file is put aside for another, 0 when it never is.
	full int64
}

// sources are the components' logs by the names of their files.
var sources = map[string]source{
	"kube-apiserver": {ekstypes.LogTypeApi, "kube-apiserver", klogTime, 0},
	componentlog.Audit: {ekstypes.LogTypeAudit, componentlog.Audit, auditTime,
		componentlog.AuditMaxSize << 20},
	"authenticator": {ekstypes.LogTypeAuthenticator, "authenticator", logfmtTime,
		componentlog.AuthenticatorMaxSize},
	"kube-controller-manager":      {ekstypes.LogTypeControllerManager, "kube-controller-manager", klogTime, 0},
	"aws-cloud-controller-manager": {ekstypes.LogTypeControllerManager, "cloud-controller-manager", klogTime, 0},
	"kube-scheduler":               {ekstypes.LogTypeScheduler, "kube-scheduler", klogTime, 0},
}

// sourceOf returns the source that a log file belongs to, and whether the file is rotated, so that nothing writes to it
// any more.
func sourceOf(name string) (s source, aside, ok bool) {
	component, aside, ok := componentlog.Parse(name)
	if !ok {
		return s, false, false
	}
	s, ok = sources[component]
	return s, aside, ok
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

func openFile(dir, name string) (*file, error) {
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
	// its successor was opened is found by the second listing.
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
			f, err := openFile(dir, e.Name())
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

// fileSize returns the file's current length.
func (f *file) fileSize() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
