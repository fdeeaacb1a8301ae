package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// Contents is the content of EBS volumes and snapshots. Nothing of what is held is removed before Release is called.
type Contents interface {
	// Hold holds the content that there is by now.
	Hold() error
	// IDs returns the volumes and snapshots whose content is held.
	IDs() []string
	// Open returns a file with the content of one at one moment. It may use scratch, an empty file, for a copy.
	Open(ctx context.Context, id string, scratch *os.File) (*os.File, error)
	Release()
}

const (
	volumesName = "volumes/"
	sizeName    = "size"
	// missingName is that of a member that stands for the content of a volume that could not be copied. It says why.
	missingName = "missing"
	maxReason   = 4096 // bytes
	// extentAtMost is the maximum size in bytes of a part of a volume in an archive.
	extentAtMost = 64 << 20
	// sizeAtMost is more than the largest volume of EBS has, in bytes.
	sizeAtMost = 1 << 47
)

// addVolumes adds the content of volumes: of each the parts that are not empty, by their offsets, and its size. It
// returns those whose content could not be copied, and why.
func (a *archive) addVolumes(ctx context.Context, contents Contents, scratchDir string) (
	missing map[string]string, err error) {
	missing = map[string]string{}
	for _, id := range contents.IDs() {
		reason, err := a.addVolume(ctx, contents, id, scratchDir)
		if err != nil {
			return nil, err
		}
		if reason != "" {
			missing[id] = reason
		}
	}
	return missing, nil
}

// addVolume adds the content of a volume, or the reason why it cannot be copied: a machine can write to its volume all
// the time.
func (a *archive) addVolume(ctx context.Context, contents Contents, id, scratchDir string) (reason string, err error) {
	scratch, err := os.CreateTemp(scratchDir, "volume-*")
	if err != nil {
		return "", err
	}
	defer scratch.Close()
	if err := os.Remove(scratch.Name()); err != nil { // its space is free when it is closed
		return "", err
	}
	f, err := contents.Open(ctx, id, scratch)
	switch {
	case ctx.Err() != nil:
		f.Close() // of a nil file is an error and nothing else
		return "", errors.Join(err, ctx.Err())
	case err != nil:
		reason = strings.ToValidUTF8(err.Error()[:min(maxReason, len(err.Error()))], "")
		return reason, a.addContent(volumesName+id+"/"+missingName, []byte(reason))
	}
	return "", a.addParts(ctx, id, f)
}

// addParts adds the parts of a file that have content, and its size.
func (a *archive) addParts(ctx context.Context, id string, f *os.File) error {
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	prefix := volumesName + id + "/"
	err = eachExtent(f, info.Size(), func(offset, size int64) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return a.writeEntry(fmt.Sprintf("%s%016x", prefix, offset), size, io.NewSectionReader(f, offset, size))
	})
	if err != nil {
		return fmt.Errorf("read the content of %s: %w", id, err)
	}
	return a.addContent(prefix+sizeName, fmt.Appendln(nil, info.Size()))
}

// eachExtent calls f with the parts of a file that have content.
func eachExtent(file *os.File, size int64, f func(offset, size int64) error) error {
	for at := int64(0); at < size; {
		from, to, err := nextExtent(file, at, size)
		if err != nil {
			return err
		}
		for ; from < to; from += extentAtMost {
			if err := f(from, min(extentAtMost, to-from)); err != nil {
				return err
			}
		}
		at = to
	}
	return nil
}

// volumeFile is a member of an archive that is about a volume: <id>/size, <id>/missing, or <id>/<offset>.
var volumeFile = regexp.MustCompile(`^((?:vol|snap)-[0-9a-f]{8,17})/(size|missing|[0-9a-f]{16})$`)

// volumes puts the content of volumes together while an archive is read.
type volumes struct {
	dir   string           // of the data directory that is made
	ends  map[string]int64 // where the last part of each ends that has no size yet
	sized map[string]bool  // those that are complete
	// missing are those of them that could not be copied, with the reasons.
	missing map[string]string
}

// save writes a member of an archive.
func (v *volumes) save(name string, size int64, content io.Reader) error {
	match := volumeFile.FindStringSubmatch(name)
	if match == nil {
		return fmt.Errorf("%w: it contains %q", errNotWhole, volumesName+name)
	}
	id, part := match[1], match[2]
	if v.sized[id] {
		return fmt.Errorf("%w: %s goes on after its size", errNotWhole, id)
	}
	if part == missingName {
		return v.setMissing(id, content)
	}
	file := filepath.Join(v.dir, id, "disk")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if part == sizeName {
		err = v.setSize(f, id, content)
	} else {
		err = v.savePart(f, id, part, size, content)
	}
	return errors.Join(err, f.Close())
}

// setMissing notes a volume that could not be copied. It has no file.
func (v *volumes) setMissing(id string, content io.Reader) error {
	reason, err := io.ReadAll(io.LimitReader(content, maxReason+1))
	if err != nil {
		return err
	}
	if _, begun := v.ends[id]; begun || len(reason) > maxReason {
		return fmt.Errorf("%w: %s has content, and none", errNotWhole, id)
	}
	v.missing[id], v.sized[id] = string(reason), true
	return nil
}

func (v *volumes) savePart(f *os.File, id, part string, size int64, content io.Reader) error {
	offset, err := strconv.ParseUint(part, 16, 63)
	if err != nil || offset > sizeAtMost || size > extentAtMost || int64(offset) < v.ends[id] {
		return fmt.Errorf("%w: %s has a part of %d bytes at %s", errNotWhole, id, size, part)
	}
	if _, err := f.Seek(int64(offset), io.SeekStart); err != nil {
		return err
	}
	v.ends[id] = int64(offset) + size
	_, err = io.Copy(f, content)
	return err
}

func (v *volumes) setSize(f *os.File, id string, content io.Reader) error {
	text, err := io.ReadAll(io.LimitReader(content, 32))
	if err != nil {
		return err
	}
	size, err := strconv.ParseInt(strings.TrimSuffix(string(text), "\n"), 10, 64)
	if err != nil || size > sizeAtMost || size < v.ends[id] {
		return fmt.Errorf("%w: %s has the size %q", errNotWhole, id, text)
	}
	delete(v.ends, id)
	v.sized[id] = true
	return f.Truncate(size)
}

// check returns an error unless the volumes are those of the manifest, each of them whole.
func (v *volumes) check(ids []string) error {
	for _, id := range ids {
		if !v.sized[id] {
			return fmt.Errorf("%w: the content of %s is missing", errNotWhole, id)
		}
		delete(v.sized, id)
	}
	for id := range v.sized {
		return fmt.Errorf("%w: it contains %s, which its %s does not name", errNotWhole, id, manifestName)
	}
	for id := range v.ends {
		return fmt.Errorf("%w: the size of %s is missing", errNotWhole, id)
	}
	return nil
}

// RemoveLeftovers removes what backups that were broken off have left in a data directory. None may be under way.
func RemoveLeftovers(dir string) error {
	left, err := filepath.Glob(filepath.Join(dir, leftoverPattern))
	for _, name := range left {
		if removeErr := os.RemoveAll(name); removeErr != nil && !errors.Is(removeErr, fs.ErrNotExist) {
			err = errors.Join(err, removeErr)
		}
	}
	return err
}
