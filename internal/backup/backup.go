// Package backup writes the whole state of a data directory into one file and makes a data
// directory of it again.
//
// The file is a gzipped tar archive:
//
//	manifest.json   what it is a backup of
//	etcd.snapshot   every table and every cluster: a snapshot of etcd, taken while all goes on
//	files/...       what is not in etcd: authorities and their keys, root access keys, settings, log events
//	volumes/...     the content of EBS volumes and snapshots, where it was asked for: parts by their offsets, and sizes,
//	                or why one could not be copied
//	SHA256SUMS      of all of these, last, so that a file that was cut short is noticed
//
// It holds every secret that the data directory holds; it is written with mode 0600.
package backup

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/coracle-eks/coracle/internal/datadir"
	"github.com/coracle-eks/coracle/internal/etcd"
)

const (
	format = 1
	// formatVolumes is that of archives with the content of volumes, which earlier versions do not read.
	formatVolumes = 2

	manifestName = "manifest.json"
	snapshotName = "etcd.snapshot"
	filesName    = "files/"
	sumsName     = "SHA256SUMS"
)

// What a restore reads into memory at a time, in bytes. There are as many checksums as files, of log events for
// example: they have no bound, or a backup of many could not be restored.
const (
	maxManifest = 64 << 20 // it names all volumes, as many as all accounts may have
	maxSum      = 64 << 10 // a line of the checksums
)

// Manifest describes a backup.
type Manifest struct {
	Format  int       `json:"format"`
	Version string    `json:"version"` // of the coracle that wrote it
	Taken   time.Time `json:"taken"`
	DataDir string    `json:"dataDir"`
	Account string    `json:"account"`
	Region  string    `json:"region"`
	// External reports that the snapshot is of an etcd that coracle does not run.
	External bool `json:"external"`
	// Volumes are the EBS volumes and snapshots whose content it has; of a backup that is read, without those of Missing.
	Volumes []string `json:"volumes,omitempty"`
	// Missing has those whose content could not be copied, and the reasons: of a backup that is read.
	Missing map[string]string `json:"-"`
}

// includedFiles are the files of a data directory that etcd does not hold. Those of clusters are made
// again from the store.
var includedFiles = []string{
	"format.json", "settings.json", "credentials", "forward-credentials", "pki", "etcd/pki", "etcd/settings.json",
}

// Sources are the stores of a running daemon, each of which gives a consistent copy of itself.
type Sources struct {
	// Etcd writes etcd's snapshot.
	Etcd func(ctx context.Context, w io.Writer) error
	// Events copies the log events to a directory that doesn't exist yet.
	Events func(ctx context.Context, dir string) error
	// Contents is the content of EBS volumes and snapshots, which Write does not release; nil: it is left out.
	Contents Contents
}

// leftoverPattern matches the directories in a data directory that a backup needs while it is written.
const leftoverPattern = ".backup-*"

// errNotWhole is the error about an archive that cannot have been written by Write.
var errNotWhole = errors.New("it is damaged")

// Write writes a backup of dir to w. It returns the volumes whose content could not be copied, and the reasons: whoever
// has one of them keeps nobody from a backup of all others.
func Write(ctx context.Context, w io.Writer, dir datadir.Dir, m Manifest, from Sources) (
	missing map[string]string, err error) {
	m.Format = format
	if from.Contents != nil { // what has a record then is there, whatever is deleted meanwhile
		if err := from.Contents.Hold(); err != nil {
			return nil, fmt.Errorf("hold the content of volumes: %w", err)
		}
	}
	// Events are copied before the rows of their groups: those of a group without a row would be deleted.
	copies, err := os.MkdirTemp(string(dir), leftoverPattern)
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(copies)
	events := filepath.Join(copies, "events")
	if err := from.Events(ctx, events); err != nil {
		return nil, fmt.Errorf("copy the log events: %w", err)
	}
	// A tar header needs the size of what follows, so the snapshot goes to the disk first.
	spool, err := os.OpenFile(filepath.Join(copies, "etcd"), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	defer spool.Close()
	if err := from.Etcd(ctx, spool); err != nil {
		return nil, err
	}

	if from.Contents != nil {
		if err := from.Contents.Hold(); err != nil { // and what was made before its record was written down
			return nil, fmt.Errorf("hold the content of volumes: %w", err)
		}
		m.Format, m.Volumes = formatVolumes, from.Contents.IDs()
	}
	z := gzip.NewWriter(w)
	a := &archive{tar: tar.NewWriter(z), taken: m.Taken}
	manifest, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, err
	}
	if err := a.addContent(manifestName, append(manifest, '\n')); err != nil {
		return nil, err
	}
	if err := a.addFile(snapshotName, spool); err != nil {
		return nil, err
	}
	for _, name := range includedFiles {
		if err := a.addTree(dir.Join(name), name); err != nil {
			return nil, err
		}
	}
	if err := a.addTree(events, "logs/events"); err != nil {
		return nil, err
	}
	if from.Contents != nil {
		if missing, err = a.addVolumes(ctx, from.Contents, copies); err != nil {
			return nil, err
		}
	}
	if err := a.addContent(sumsName, a.sums.Bytes()); err != nil {
		return nil, err
	}
	return missing, errors.Join(a.tar.Close(), z.Close())
}

// archive is a tar being written.
type archive struct {
	tar   *tar.Writer
	taken time.Time
	sums  bytes.Buffer
}

// addTree adds the file or the directory at root, under name.
func (a *archive) addTree(root, name string) error {
	return filepath.WalkDir(root, func(file string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && file == root {
			return nil // with an external etcd there is none of our own
		}
		if err != nil || !e.Type().IsRegular() || strings.HasPrefix(e.Name(), ".") {
			return err
		}
		f, err := os.Open(file)
		if err != nil {
			return err
		}
		defer f.Close()
		rel, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		return a.addFile(filesName+path.Join(name, filepath.ToSlash(rel)), f)
	})
}

func (a *archive) addContent(name string, content []byte) error {
	return a.writeEntry(name, int64(len(content)), bytes.NewReader(content))
}

func (a *archive) addFile(name string, f *os.File) error {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return a.writeEntry(name, size, f)
}

func (a *archive) writeEntry(name string, size int64, r io.Reader) error {
	err := a.tar.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: size, ModTime: a.taken, Format: tar.FormatPAX})
	if err != nil {
		return err
	}
	sum := sha256.New()
	if _, err := io.Copy(io.MultiWriter(a.tar, sum), r); err != nil {
		return err
	}
	if name != sumsName {
		fmt.Fprintf(&a.sums, "%s  %s\n", hex.EncodeToString(sum.Sum(nil)), name)
	}
	return nil
}

// ErrOccupied reports that the data directory to restore into has content already.
var ErrOccupied = errors.New("the data directory is not empty")

// Restore makes dir, which must not exist or be empty, from the backup that r reads. dir
// appears complete or not at all.
func Restore(r io.Reader, dir datadir.Dir) (Manifest, error) {
	if entries, err := os.ReadDir(string(dir)); err == nil && len(entries) > 0 {
		return Manifest{}, fmt.Errorf("%s: %w", dir, ErrOccupied)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Manifest{}, err
	}
	parent := filepath.Dir(string(dir))
	// Open to others: what is above a data directory is not ours.
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return Manifest{}, err
	}
	staged, err := os.MkdirTemp(parent, ".coracle-restore-") // mode 0700
	if err != nil {
		return Manifest{}, err
	}
	defer os.RemoveAll(staged)
	m, err := extract(r, staged)
	if err != nil {
		return m, err
	}
	if m.External {
		return m,
			errors.New(
				"this backup is of an etcd that coracle does not run: restore its etcd.snapshot there (etcdutl " +
					"snapshot restore), unpack its files/ into the data directory, and start with --etcd-endpoints")
	}
	snapshot := filepath.Join(staged, snapshotName)
	if err := etcd.Restore(filepath.Join(staged, "etcd"), snapshot); err != nil {
		return m, err
	}
	if err := os.Remove(snapshot); err != nil {
		return m, err
	}
	if err := syncTree(staged); err != nil {
		return m, err
	}
	if err := os.Rename(staged, string(dir)); err != nil {
		return m, fmt.Errorf("put the restored directory in its place: %w", err)
	}
	return m, nil
}

// extract unpacks files/ and the snapshot into dir and checks every sum.
func extract(r io.Reader, dir string) (m Manifest, err error) {
	broken := func(err error) (Manifest, error) {
		return m, fmt.Errorf("this is not a whole backup of coracle: %w", err)
	}
	z, err := gzip.NewReader(bufio.NewReaderSize(r, 1<<20))
	if err != nil {
		return broken(err)
	}
	seen := map[string]string{}
	summed := false
	v := &volumes{dir: filepath.Join(dir, "volumes"), ends: map[string]int64{}, sized: map[string]bool{},
		missing: map[string]string{}}
	for t := tar.NewReader(z); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return broken(err)
		}
		sum := sha256.New()
		content := io.TeeReader(t, sum)
		rel, isFile := strings.CutPrefix(h.Name, filesName)
		ofVolume, isVolume := strings.CutPrefix(h.Name, volumesName)
		switch {
		case h.Name == manifestName:
			if h.Size > maxManifest {
				return broken(fmt.Errorf("its %s is %d bytes long", manifestName, h.Size))
			}
			if err := json.NewDecoder(content).Decode(&m); err != nil {
				return broken(err)
			}
			if m.Format != format && m.Format != formatVolumes {
				return m,
					fmt.Errorf(
						"the backup has format %d, written by coracle %s; this one reads formats %d and %d: use the program "+
							"that wrote it", m.Format, m.Version, format, formatVolumes)
			}
			if _, err := io.Copy(io.Discard, content); err != nil { // the rest counts for the sum
				return broken(err)
			}
		case h.Name == sumsName:
			if err := checkSums(content, seen); err != nil {
				return broken(err)
			}
			summed = true
			continue
		case h.Name == snapshotName:
			err = saveFile(filepath.Join(dir, snapshotName), content)
		case isFile && filepath.IsLocal(rel) && path.Clean(rel) == rel:
			err = saveFile(filepath.Join(dir, filepath.FromSlash(rel)), content)
		case isVolume && m.Format == formatVolumes:
			err = v.save(ofVolume, h.Size, content)
		default:
			return broken(fmt.Errorf("it contains %q", h.Name))
		}
		if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, gzip.ErrChecksum) || errors.Is(err, errNotWhole) {
			return broken(err)
		}
		if err != nil {
			return m, err
		}
		seen[h.Name] = hex.EncodeToString(sum.Sum(nil))
	}
	if !summed {
		return broken(fmt.Errorf("%s is missing at its end", sumsName))
	}
	for name := range seen {
		return broken(fmt.Errorf("%s is not among its checksums", name))
	}
	if err := v.check(m.Volumes); err != nil {
		return broken(err)
	}
	m.Missing = v.missing
	m.Volumes = slices.DeleteFunc(m.Volumes, func(id string) bool { _, is := m.Missing[id]; return is })
	if _, err := os.Stat(filepath.Join(dir, snapshotName)); err != nil {
		return broken(fmt.Errorf("%s is missing", snapshotName))
	}
	return m, nil
}

// checkSums compares the checksums of an archive with those of the members that were seen, of which it leaves those
// that have none.
func checkSums(sums io.Reader, seen map[string]string) error {
	lines := bufio.NewScanner(sums)
	lines.Buffer(nil, maxSum)
	for lines.Scan() {
		sum, name, _ := strings.Cut(strings.TrimSpace(lines.Text()), "  ")
		if seen[name] != sum {
			return fmt.Errorf("%s is damaged", name)
		}
		delete(seen, name)
	}
	return lines.Err()
}

func saveFile(name string, content io.Reader) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	return errors.Join(err, f.Close())
}

// syncTree makes sure that what is renamed into place is on the disk.
func syncTree(dir string) error {
	return filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		return errors.Join(f.Sync(), f.Close())
	})
}
