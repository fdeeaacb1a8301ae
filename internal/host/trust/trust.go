// Package trust makes programs of this host trust a daemon's certificate authority.
//
// There are two ways. [System.Install] adds the authority to the system's trust store, for all programs of the host:
// one file for each daemon, named after its owner's mark, so that daemons do not disturb each other. [WriteBundle]
// writes a file of its own with the certificates that the system trusts and those of daemons, for the programs of a
// shell that names it in SSL_CERT_FILE and AWS_CA_BUNDLE.
//
// The daemons of root on this host also tell each other their authorities ([Publish], [Published]): the name of an
// issuer leads to one of them, who answers for all.
package trust

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/coracle-eks/coracle/internal/durable"
	"github.com/coracle-eks/coracle/internal/host/rundir"
)

const (
	// lockName is the lock that whoever changes the trust store of this host takes.
	lockName = "trust.lock"
	// updateTime bounds the program of the distribution, which reads all certificates of the store.
	updateTime = 2 * time.Minute
)

// System is the trust store of a distribution.
type System struct {
	// Directory is the directory in which administrators put certificates, Suffix the suffix of the names of their files.
	Directory, Suffix string
	// Update is the command that adds what is in the directory to what programs read, and removes what has gone.
	Update []string
	// Links is the directory in which the command makes symbolic links to certificates, and leaves those of certificates
	// that have gone; empty where it makes none. (With --fresh it would remove them, and for a moment all others, too.)
	Links string
}

// systems are the trust stores that are known. The first whose directory and command are there is this host's.
var systems = []System{
	// Fedora, RHEL, Amazon Linux
	{"/etc/pki/ca-trust/source/anchors", ".crt", []string{"update-ca-trust", "extract"}, ""},
	// Arch Linux
	{"/etc/ca-certificates/trust-source/anchors", ".crt", []string{"update-ca-trust"}, ""},
	// SUSE
	{"/etc/pki/trust/anchors", ".crt", []string{"update-ca-certificates"}, ""},
	// Debian, Ubuntu, Alpine
	{"/usr/local/share/ca-certificates", ".crt", []string{"update-ca-certificates"}, "/etc/ssl/certs"},
}

// ErrUnknownSystem reports that this host has none of the trust stores that are known.
var ErrUnknownSystem = errors.New("this host has neither update-ca-certificates nor update-ca-trust")

// Find returns the trust store of this host, or ErrUnknownSystem.
func Find() (System, error) {
	for _, s := range systems {
		info, err := os.Stat(s.Directory)
		if err != nil || !info.IsDir() {
			continue
		}
		if _, err := exec.LookPath(s.Update[0]); err == nil {
			return s, nil
		}
	}
	return System{}, ErrUnknownSystem
}

// File returns the file of an owner's authority in the trust store.
func (s System) File(owner string) string {
	return filepath.Join(s.Directory, "coracle-"+owner+s.Suffix)
}

// Install makes the system trust the authority of an owner, PEM, in place of the owner's earlier one.
func (s System) Install(ctx context.Context, owner string, authority []byte) error {
	unlock, err := rundir.Lock(ctx, lockName)
	if err != nil {
		return err
	}
	defer unlock()
	file := s.File(owner)
	if err := durable.WriteFile(file, authority, 0o644); err != nil { // open to others: everybody reads roots
		return err
	}
	if err := s.update(ctx); err != nil {
		return errors.Join(err, os.Remove(file))
	}
	return nil
}

// Remove makes the system trust the authority of an owner no longer, and reports whether it did.
func (s System) Remove(ctx context.Context, owner string) (bool, error) {
	if _, err := os.Lstat(s.File(owner)); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	unlock, err := rundir.Lock(ctx, lockName)
	if err != nil {
		return false, err
	}
	defer unlock()
	if err := os.Remove(s.File(owner)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	return true, errors.Join(s.removeLinks(owner), s.update(ctx))
}

// removeLinks removes the symbolic links to an owner's authority: one with its name, and one with the hash of its
// subject that leads to the first.
func (s System) removeLinks(owner string) error {
	if s.Links == "" {
		return nil
	}
	entries, err := os.ReadDir(s.Links)
	if err != nil {
		return err
	}
	file := s.File(owner)
	name := strings.TrimSuffix(filepath.Base(file), s.Suffix) + ".pem"
	for _, e := range entries {
		link := filepath.Join(s.Links, e.Name())
		target, err := os.Readlink(link)
		if err != nil || target != file && target != name {
			continue
		}
		if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// RemoveAll removes the authority of an owner from whichever trust store has it, and reports whether one had.
func RemoveAll(ctx context.Context, owner string) (removed bool, err error) {
	for _, s := range systems {
		had, err2 := s.Remove(ctx, owner)
		removed, err = removed || had, errors.Join(err, err2)
	}
	return removed, err
}

// update runs the distribution's command.
func (s System) update(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, updateTime)
	defer cancel()
	out, err := exec.CommandContext(ctx, s.Update[0], s.Update[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(s.Update, " "), err, bytes.TrimSpace(out))
	}
	return nil
}

// publishedFile is the name of the file with the authority of an owner in the owner's run directory.
const publishedFile = "ca.crt"

// Publish tells the other daemons of root on this host the authority of an owner, until the host or the owner ends.
func Publish(owner string, authority []byte) error {
	dir, err := rundir.Create(owner)
	if err != nil {
		return err
	}
	return durable.EnsureFile(filepath.Join(dir, publishedFile), authority, 0o600)
}

// Published returns the authorities of all daemons of root on this host, PEM. Only root can read them.
func Published() (all [][]byte, err error) {
	files, err := filepath.Glob(rundir.Path("*", publishedFile))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue // that daemon has just been removed
		}
		if err != nil {
			return nil, err
		}
		all = append(all, text)
	}
	return all, nil
}
