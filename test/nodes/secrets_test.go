//go:build linux

package nodes

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/etcd"
	"github.com/coracle-eks/coracle/internal/host/machine/rootvolume"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/test/harness"
)

// callers are variables that somebody has set who starts a daemon, and that nobody else has to know.
var callers = []string{
	"AWS_SECRET_ACCESS_KEY=a-secret-of-the-caller", "AWS_SESSION_TOKEN=a-token-of-the-caller",
	"CI_JOB_TOKEN=a-job-of-the-caller", "CORACLE_SECRET=a-variable-of-the-caller",
}

// keepsSecrets expects a daemon with a cluster and a node, which was started with the variables of callers, to keep its
// secrets: no file is open to other users, and no process shows a secret that others could see, in its arguments or
// environment or log.
func (s *cluster) keepsSecrets() {
	s.t.Helper()
	s.closesItsFiles()
	secrets := s.secrets()
	s.hidesInProcesses(secrets)
	s.hidesInFiles(secrets)
	s.keepsOthersOut()
	s.startsCleanInTheBackground()
}

// open are the files and directories that other users may read, below directories that they may not enter, with the
// reason.
var open = []struct{ path, reason string }{
	{`machines/[^/]+/(root|mnt|layers|containerd|kubelet|log|run)(/.*)?`,
		"the file system of a machine, whose users are its own"},
	{`(machines/ami|node-image)(/.*)?`, "what file systems of machines begin with"},
	{`images/golden(/.*)?`, "what /var/lib/containerd of machines begins with"},
	{`images/registry(/.*)?`, "made by the library of the registry"},
	{`logs/events(/.*)?`, "made by the library of the event store"},
	{`run/netns/[^/]+`, "a namespace, whose mode is the kernel's"},
}

func (s *cluster) closesItsFiles() {
	s.t.Helper()
	for _, d := range []string{s.Dir, "/run/coracle"} {
		if info, err := os.Stat(d); err != nil || info.Mode().Perm() != 0o700 {
			s.t.Errorf("%s has mode %v, %v; want 0700", d, info.Mode(), err)
		}
	}
	run := filepath.Join("/run/coracle", s.Owner())
	seen := map[int]int{}
	var patterns []*regexp.Regexp
	for _, o := range open {
		patterns = append(patterns, regexp.MustCompile("^"+o.path+"$"))
	}
	look := func(root, prefix string) {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil // the daemon is at work
			}
			if err != nil {
				return err
			}
			info, err := d.Info()
			if errors.Is(err, fs.ErrNotExist) || err == nil && (info.Mode()&fs.ModeSymlink != 0 ||
				info.Mode().Perm()&0o077 == 0) {
				return nil
			}
			if err != nil {
				return err
			}
			name := strings.TrimPrefix(prefix+strings.TrimPrefix(path, root), "/")
			i := slices.IndexFunc(patterns, func(p *regexp.Regexp) bool { return p.MatchString(name) })
			if i < 0 {
				s.t.Errorf("%s has mode %v: nobody but its owner needs it", path, info.Mode())
				return nil
			}
			seen[i]++
			return nil
		})
		if err != nil {
			s.t.Error(err)
		}
	}
	look(s.Dir, "")
	look(run, "run")
	for _, lock := range []string{"lock", "hosts.lock"} {
		if info, err := os.Stat(filepath.Join("/run/coracle", lock)); err != nil || info.Mode() != 0o600 {
			s.t.Errorf("%s has mode %v, %v; want 0600", lock, info.Mode(), err)
		}
	}
	for i, o := range open {
		if seen[i] == 0 {
			s.t.Errorf("nothing at %s is open to others (%s): remove it from the list", o.path, o.reason)
		}
	}
}

// secret is something that nobody may see.
type secret struct {
	name  string
	value []byte
	// in is the suffix of the path of the file that holds it; empty for one that is in etcd or nowhere.
	in string
}

// secrets returns the secrets of the daemon.
func (s *cluster) secrets() (all []secret) {
	s.t.Helper()
	add := func(name, in string, value []byte) {
		if len(value) < 12 {
			s.t.Fatalf("%s is too short to be looked for: %q", name, value)
		}
		all = append(all, secret{name, value, in})
	}
	for _, variable := range callers {
		name, value, _ := strings.Cut(variable, "=")
		add("the caller's "+name, "", []byte(value))
	}
	add("the root access key", "credentials", []byte(s.Variable("AWS_SECRET_ACCESS_KEY")))
	key, err := os.ReadFile(filepath.Join(s.Dir, "process.key"))
	if err != nil {
		s.t.Fatal(err)
	}
	add("the key of process marks", "process.key", key)
	add("the key of process marks, in hexadecimal", "", []byte(hex.EncodeToString(key)))
	// Private keys: those in PEM by a line in their middle.
	keys := 0
	err = filepath.WalkDir(s.Dir, func(path string, d fs.DirEntry, err error) error {
		name := strings.TrimPrefix(path, s.Dir+"/")
		if errors.Is(err, fs.ErrNotExist) || d != nil && d.IsDir() && (name == "machines" || name == "images" ||
			name == "etcd/data") {
			return fs.SkipDir
		}
		if err != nil || !strings.HasSuffix(name, ".key") || name == "process.key" || d.Type()&fs.ModeSymlink != 0 {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		value := bytes.TrimSpace(text)
		if lines := bytes.Split(value, []byte("\n")); bytes.HasPrefix(value, []byte("-----BEGIN")) && len(lines) > 2 {
			value = lines[len(lines)/2]
		}
		keys++
		in := name
		if filepath.Base(name) == "sa.key" { // the first key of a cluster is its API server's and its controller manager's
			in = "sa.key"
		}
		add(name, in, value)
		return nil
	})
	if err != nil || keys < 8 {
		s.t.Errorf("%d private keys were found: %v", keys, err)
	}
	for _, more := range s.secretsOfStore() {
		add(more.name, more.in, more.value)
	}
	return all
}

// secretsOfStore returns the keys that etcd holds, as the daemon sees them.
func (s *cluster) secretsOfStore() (all []secret) {
	s.t.Helper()
	embedded, err := etcd.Prepare(filepath.Join(s.Dir, "etcd"))
	if err != nil {
		s.t.Fatal(err)
	}
	connection, err := embedded.Connect(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	defer connection.Close()
	st, err := store.Open(s.t.Context(), connection.Client, store.Options{Log: slog.New(slog.DiscardHandler),
		Migrations: record.Migrations})
	if err != nil {
		s.t.Fatal(err)
	}
	defer st.Close()
	sealing, err := record.SessionKeys(st).List(s.t.Context(), "")
	if err != nil || len(sealing) == 0 {
		s.t.Fatalf("%d sealing keys: %v", len(sealing), err)
	}
	for _, row := range sealing {
		all = append(all, secret{"the sealing key", row.Value.Secret, ""},
			secret{"the sealing key, in base64", []byte(base64.StdEncoding.EncodeToString(row.Value.Secret)), ""},
			secret{"the sealing key, in hexadecimal", []byte(hex.EncodeToString(row.Value.Secret)), ""})
	}
	clusters, err := record.ControlPlaneSecretsTable(st).List(s.t.Context(), "")
	if err != nil || len(clusters) != 1 || len(clusters[0].Value.EncryptionKeys) == 0 {
		s.t.Fatalf("keys of %d clusters: %v", len(clusters), err)
	}
	for _, key := range clusters[0].Value.EncryptionKeys {
		all = append(all, secret{"the key of Secrets", []byte(base64.StdEncoding.EncodeToString(key)),
			"encryption.yaml"})
	}
	return all
}

// hidesInProcesses searches every process of this host but this one, and the daemon, which has what its caller gave it.
func (s *cluster) hidesInProcesses(secrets []secret) {
	s.t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		s.t.Fatal(err)
	}
	ours := 0
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		arguments, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		environment, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if bytes.Contains(arguments, []byte(s.Dir)) || bytes.Contains(environment, []byte(s.Dir)) {
			ours++
		}
		for _, secret := range secrets {
			if bytes.Contains(arguments, secret.value) {
				s.t.Errorf("process %d has %s in its arguments: %q", pid, secret.name, arguments)
			}
			if bytes.Contains(environment, secret.value) && pid != s.PID() {
				s.t.Errorf("process %d (%q) has %s in its environment", pid, arguments, secret.name)
			}
		}
		// No process of the daemon has a variable of its configuration, or of AWS's, but for the one that calls AWS by
		// itself.
		if pid == s.PID() || !bytes.Contains(environment, []byte("CORACLE_PROCESS="+s.Owner())) {
			continue
		}
		for variable := range strings.SplitSeq(string(environment), "\x00") {
			name, _, _ := strings.Cut(variable, "=")
			configuration := strings.HasPrefix(name, "CORACLE_") && !strings.HasPrefix(name, "CORACLE_PROCESS")
			credentials := strings.HasPrefix(name, "AWS_") && !bytes.Contains(arguments,
				[]byte("aws-cloud-controller-manager"))
			if configuration || credentials {
				s.t.Errorf("process %d (%q) has the variable %s", pid, arguments, name)
			}
		}
	}
	if ours < 8 { // the daemon, etcd, endpoint, a control plane of four, a machine
		s.t.Errorf("only %d processes of the daemon were seen", ours)
	}
}

// hidesInFiles searches for secrets in all files but those that hold them: logs, settings, configurations of what runs.
func (s *cluster) hidesInFiles(secrets []secret) {
	s.t.Helper()
	longest := 0
	for _, secret := range secrets {
		longest = max(longest, len(secret.value))
	}
	look := func(path, name string) {
		found := map[string]bool{}
		err := readData(path, longest, func(text []byte) {
			for _, secret := range secrets {
				if (secret.in == "" || !strings.HasSuffix(name, secret.in)) && bytes.Contains(text, secret.value) {
					found[secret.name] = true
				}
			}
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // it has been put aside
			s.t.Error(err)
		}
		for name := range found {
			s.t.Errorf("%s holds %s", path, name)
		}
	}
	// What machines have logged is on their disks.
	machines, err := filepath.Glob(filepath.Join(s.Dir, "machines", "i-*"))
	if err != nil || len(machines) == 0 {
		s.t.Fatalf("there are the machines %q: %v", machines, err)
	}
	for _, dir := range machines {
		s.In(filepath.Base(dir), "sync", "-f", "/var/log")
	}
	logs, disks := 0, 0
	err = filepath.WalkDir(s.Dir, func(path string, d fs.DirEntry, err error) error {
		name := strings.TrimPrefix(path, s.Dir+"/")
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		// etcd holds them all; file systems of machines and images are as large as they are.
		if d.IsDir() && slices.Contains([]string{"etcd/data", "images", "bundles", "node", "machines/ami"}, name) ||
			d.IsDir() && strings.HasPrefix(name, "machines/") && strings.Count(name, "/") == 2 &&
				!strings.HasSuffix(name, "/log") {
			return fs.SkipDir
		}
		if !d.Type().IsRegular() {
			return nil
		}
		if strings.HasSuffix(name, ".log") {
			logs++
		}
		if strings.HasPrefix(name, "volumes/") {
			disks++
		}
		look(path, name)
		return nil
	})
	if err != nil {
		s.t.Error(err)
	}
	if logs < 6 {
		s.t.Errorf("only %d logs were seen", logs)
	}
	if rootvolume.Check() == nil && disks < len(machines) {
		s.t.Errorf("of %d machines %d disks were seen", len(machines), disks)
	}
	for what, text := range map[string]string{
		"the daemon's log": s.Log(),
		"coracle status":   s.Run("", "coracle", "status", "-o", "json", "--data-dir", s.Dir),
	} {
		for _, secret := range secrets {
			if bytes.Contains([]byte(text), secret.value) {
				s.t.Errorf("%s holds %s", what, secret.name)
			}
		}
	}
}

// readData calls f with the parts of a file that have been written: a disk is as large as its volume and mostly empty.
// Each begins with the end of the one before, lest something that is as long as overlap lies in neither.
func readData(path string, overlap int, f func(part []byte)) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	const step = 1 << 20
	buffer := make([]byte, step+overlap)
	for at, hole := int64(0), int64(0); ; at += step {
		if at >= hole {
			if at, err = file.Seek(hole, unix.SEEK_DATA); errors.Is(err, unix.ENXIO) {
				return nil // there is nothing more
			} else if err != nil {
				return err
			}
			if hole, err = file.Seek(at, unix.SEEK_HOLE); err != nil {
				return err
			}
		}
		n, err := file.ReadAt(buffer[:min(hole-at, step+int64(overlap))], at)
		if err != nil && !errors.Is(err, io.EOF) { // it has become shorter
			return err
		}
		f(buffer[:n])
	}
}

// keepsOthersOut tries as another user what the daemon keeps to itself.
func (s *cluster) keepsOthersOut() {
	s.t.Helper()
	for _, command := range [][]string{
		{"flock", "--nonblock", "/run/coracle/lock", "true"},
		{"flock", "--nonblock", "/run/coracle/hosts.lock", "true"},
		{"ls", "/run/coracle"},
		{"ls", filepath.Join("/run/coracle", s.Owner(), "endpoint")},
		{"cat", filepath.Join(s.Dir, "credentials")},
		{"ls", s.Dir},
	} {
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "Permission denied") {
			s.t.Errorf("user 65534 may %q: %v\n%s", command, err, out)
		}
	}
	// The lock is free, and stays so for those who need it.
	lock, err := os.Open("/run/coracle/lock")
	if err != nil {
		s.t.Fatal(err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_SH|unix.LOCK_NB); err != nil && !errors.Is(err, unix.EWOULDBLOCK) {
		s.t.Error(err)
	}
}

// startsCleanInTheBackground starts another daemon, by "coracle up", from a shell that is full of secrets.
func (s *cluster) startsCleanInTheBackground() {
	s.t.Helper()
	dir, err := os.MkdirTemp("", "coracle-test-")
	if err != nil {
		s.t.Fatal(err)
	}
	data := filepath.Join(dir, "data")
	s.t.Cleanup(func() {
		if out, err := exec.Command(harness.Binary(s.t), "reset", "--yes", "--data-dir",
			data).CombinedOutput(); err != nil {
			s.t.Errorf("coracle reset: %v\n%s", err, out)
		}
		os.RemoveAll(dir)
	})
	up := exec.Command(harness.Binary(s.t), "up", "--data-dir", data, "--machines", "simulated", "--listen",
		harness.FreeAddress(s.t))
	up.Env = append(os.Environ(), callers...)
	if out, err := up.CombinedOutput(); err != nil {
		s.t.Fatalf("coracle up: %v\n%s", err, out)
	}
	lock, err := os.Open(filepath.Join(data, "lock"))
	if err != nil {
		s.t.Fatal(err)
	}
	defer lock.Close()
	var pid int
	if _, err := fmt.Fscan(lock, &pid); err != nil {
		s.t.Fatal(err)
	}
	environ, err := os.Open(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		s.t.Fatal(err)
	}
	defer environ.Close()
	text, err := io.ReadAll(environ)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, variable := range callers {
		// It is configured by variables whose names begin with CORACLE_.
		if bytes.Contains(text, []byte(variable)) && !strings.HasPrefix(variable, "CORACLE_") {
			s.t.Errorf("the daemon in the background has the caller's %s", variable)
		}
	}
	if !bytes.Contains(text, []byte("PATH=")) {
		s.t.Errorf("the environment of the daemon is %q", text)
	}
}
