// Package datadir is the directory in which one daemon keeps everything it has on this machine: which files there are,
// who holds the directory, and what was chosen at the first start.
//
//	lock            held by the daemon (flock); its process ID is inside
//	settings.json   what was chosen: listen address, region, account, machines, ports
//	format.json     which version of coracle has written the directory last, and which format
//	process.key     signs the marks of the daemon's processes; without it they are started again
//	credentials     root access keys, one section for each account, as in ~/.aws/credentials
//	forward-credentials
//	                those of endpoints to which requests are forwarded; the operator writes it
//	coracle.sock    where the daemon takes commands of this program
//	serve.log       what a daemon that "coracle up" started has to say
//	pki/            the daemon's certificate authority and certificates, and the authority of ACM (acm.crt)
//	ca-bundle.pem   what programs trust after "coracle env": the system's authorities, the daemon's and that of ACM
//	etcd/           the embedded etcd: certificates, port, data
//	logs/           CloudWatch Logs: events, and results of queries
//	bundles/        Kubernetes programs that were built on first use
//	images/         the registry, and the images that machines have in their cache
//	machines/       root file systems and consoles of instances
//	metadata/       the key that signs identity documents
//	balancer.log    what the process says that forwards for load balancers
//	endpoint.log    what "coracle endpoint" has to say; its files are in /run/coracle or, without a network, endpoint/
//	addons/         the user's own add-ons
//	capabilities/   kubeconfigs, tokens and logs of EKS capabilities, by their ID
//	clusters/       certificates, configuration and logs of control planes, by cluster ID
//
// The directory is its user's alone (mode 0700): it holds private keys.
package datadir

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/coracle-eks/coracle/internal/diskspace"
)

// Dir is the absolute path of a data directory, without symbolic links.
type Dir string

// Default returns the data directory that is used without --data-dir and CORACLE_DATA_DIR.
func Default() string {
	if os.Geteuid() == 0 {
		return "/var/lib/coracle"
	}
	if data := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(data) {
		return filepath.Join(data, "coracle")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return filepath.Join(os.TempDir(), fmt.Sprintf("coracle-%d", os.Geteuid()))
	}
	return filepath.Join(home, ".local", "share", "coracle")
}

// At returns the data directory at path, whether it exists or not.
func At(path string) (Dir, error) {
	if path == "" {
		return "", errors.New("the data directory has an empty name: give --data-dir a path")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	// As much of the path as exists is resolved, so that one directory has one name.
	rest := ""
	for at := path; ; at = filepath.Dir(at) {
		resolved, err := filepath.EvalSymlinks(at)
		if err == nil {
			path = filepath.Join(resolved, rest)
			if path == "/usr" || strings.HasPrefix(path, "/usr/") {
				return "",
					fmt.Errorf("the data directory %s is below /usr, which instances see: give --data-dir another path",
						path)
			}
			return Dir(path), nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("data directory %s: %w", path, err)
		}
		rest = filepath.Join(filepath.Base(at), rest)
	}
}

// Create makes the directory if it is not there, and sees that it is ours alone.
func (d Dir) Create() error {
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return d.explain(err)
	}
	info, err := os.Stat(string(d))
	if err != nil {
		return d.explain(err)
	}
	if !info.IsDir() {
		return fmt.Errorf("the data directory %s is a file: give --data-dir another path", d)
	}
	if owner := info.Sys().(*syscall.Stat_t).Uid; int(owner) != os.Geteuid() {
		return fmt.Errorf(
			"the data directory %s belongs to user %d and you are user %d: run as its owner, or give --data-dir "+
				"another path", d, owner, os.Geteuid())
	}
	if info.Mode().Perm()&0o077 != 0 {
		if err := os.Chmod(string(d), 0o700); err != nil {
			return d.explain(err)
		}
	}
	// Without room for a line of its log a daemon could not even say why it ends.
	if free, err := diskspace.Free(string(d)); err == nil && free < 1<<20 {
		return d.explain(syscall.ENOSPC)
	}
	return nil
}

// explain adds what to do to the errors that have a remedy.
func (d Dir) explain(err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("data directory %s: %w: run as root, or give --data-dir a directory that you may write to", d,
			err)
	case errors.Is(err, syscall.ENOSPC):
		return fmt.Errorf(
			"data directory %s: %w: free some space (df -h %s), or give --data-dir a directory on another disk", d, err,
			filepath.Dir(string(d)))
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("data directory %s: %w: give --data-dir a directory that can be written to", d, err)
	}
	return fmt.Errorf("data directory %s: %w", d, err)
}

// Exists reports whether something is there.
func (d Dir) Exists() bool {
	_, err := os.Lstat(string(d))
	return err == nil
}

// Join returns the path of a file or directory in the data directory.
func (d Dir) Join(elements ...string) string {
	return filepath.Join(append([]string{string(d)}, elements...)...)
}

// LockFile returns the path of the file that the daemon locks while it runs.
func (d Dir) LockFile() string { return d.Join("lock") }

// SettingsFile returns the path of the settings that the first start made.
func (d Dir) SettingsFile() string { return d.Join("settings.json") }

// CredentialsFile returns the path of the access keys of root users.
func (d Dir) CredentialsFile() string { return d.Join("credentials") }

// ForwardCredentialsFile returns the path of the credentials of endpoints to which requests are forwarded.
func (d Dir) ForwardCredentialsFile() string { return d.Join("forward-credentials") }

// ProcessKeyFile returns the path of the key that marks the processes of the daemon.
func (d Dir) ProcessKeyFile() string { return d.Join("process.key") }

// Socket returns the path of the admin socket.
func (d Dir) Socket() string { return d.Join("coracle.sock") }

// ServeLog returns the path of the log of a daemon in the background.
func (d Dir) ServeLog() string { return d.Join("serve.log") }

// PKI returns the directory of certificate authorities.
func (d Dir) PKI() string { return d.Join("pki") }

// Bundle returns the path of the certificates that programs trust after "coracle env".
func (d Dir) Bundle() string { return d.Join("ca-bundle.pem") }

// ProviderRoots returns the path of the certificates by which API servers verify the identity providers of users. The
// daemon alone writes it, by its own environment.
func (d Dir) ProviderRoots() string { return d.Join("pki", "provider-roots.pem") }

// Etcd returns the directory of the embedded etcd.
func (d Dir) Etcd() string { return d.Join("etcd") }

// Bundles returns the directory of Kubernetes programs.
func (d Dir) Bundles() string { return d.Join("bundles") }

// Addons returns the directory of private add-ons.
func (d Dir) Addons() string { return d.Join("addons") }

// Logs returns the directory of the "events" of CloudWatch Logs, or of the "results" of queries.
func (d Dir) Logs(what string) string { return d.Join("logs", what) }

// Owner marks the processes that belong to the directory. It follows from the path alone, so
// that they are found when every file in it is lost.
func (d Dir) Owner() string {
	sum := sha256.Sum256([]byte(d))
	return hex.EncodeToString(sum[:8])
}
