package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/admin"
	"github.com/coracle-eks/coracle/internal/diskspace"
	"github.com/coracle-eks/coracle/internal/process"
	"github.com/coracle-eks/coracle/internal/upstream"
)

// check looks at one thing.
type check struct {
	name string
	run  func(context.Context, Host) []Finding
}

var checks = slices.Concat(kernelChecks, []check{
	{"data", checkDataDir},
	{"disk", checkDisk},
	{"daemon", checkDaemon},
	{"ports", checkPorts},
	{"processes", processes},
	{"bundles", bundles},
	{"nodes", checkNodes},
	{"go", checkGo},
	{"aws", checkAWSCLI},
	{"kubectl", kubectl},
})

// existing is the nearest directory above a path that exists.
func existing(path string) string {
	parent := filepath.Dir(path)
	for ; parent != "/"; parent = filepath.Dir(parent) {
		if _, err := os.Stat(parent); err == nil {
			break
		}
	}
	return parent
}

func checkDataDir(_ context.Context, h Host) []Finding {
	info, err := os.Stat(string(h.Dir))
	if errors.Is(err, os.ErrNotExist) {
		parent := existing(string(h.Dir)) // it must take it
		if err := unix.Access(parent, unix.W_OK); err != nil {
			return failFinding("run as root, or: coracle up --data-dir ~/coracle",
				"%s cannot be made: you may not write to %s", h.Dir, parent)
		}
		return okFinding("%s will be made at the first start", h.Dir)
	}
	if err != nil {
		return failFinding("run as the owner of "+string(h.Dir), "%v", err)
	}
	if !info.IsDir() {
		return failFinding("coracle up --data-dir ANOTHER", "%s is a file", h.Dir)
	}
	var s unix.Stat_t
	if err := unix.Stat(string(h.Dir), &s); err == nil && int(s.Uid) != os.Geteuid() {
		return failFinding(fmt.Sprintf("run as user %d, or: coracle up --data-dir ANOTHER", s.Uid),
			"%s belongs to user %d and you are user %d", h.Dir, s.Uid, os.Geteuid())
	}
	if info.Mode().Perm()&0o077 != 0 {
		return warnFinding("chmod 700 "+string(h.Dir),
			"%s, which holds private keys, is open to other users (mode %04o)",
			h.Dir, info.Mode().Perm())
	}
	if err := unix.Access(string(h.Dir), unix.W_OK); err != nil {
		return failFinding("mount -o remount,rw the file system, or: coracle up --data-dir ANOTHER",
			"%s cannot be written to: %v", h.Dir, err)
	}
	if err := h.Dir.CheckFormat(); err != nil {
		return failFinding("install the newer coracle again, or: coracle up --data-dir ANOTHER", "%v", err)
	}
	if h.Settings != nil {
		return failFinding("coracle restore --replace BACKUP   # or start anew: coracle reset",
			"the settings cannot be read: %v", h.Settings)
	}
	return okFinding("%s", h.Dir)
}

func checkDisk(_ context.Context, h Host) []Finding {
	dir := string(h.Dir)
	left, err := diskspace.Free(dir)
	for ; err != nil; left, err = diskspace.Free(dir) {
		if dir == "/" {
			return warnFinding("", "the size of the disk is not known: %v", err)
		}
		dir = filepath.Dir(dir) // the data directory is not made yet
	}
	free := uint64(max(left, 0))
	fix := "df -h " + dir + "; df -i " + dir + "   # free some space, or: coracle up --data-dir DIRECTORY_ON_ANOTHER_DISK"
	switch {
	case free < diskspace.Start:
		return failFinding(fix, "%s free for %s: nothing starts; what runs answers, and takes no changes",
			humanize.IBytes(free), h.Dir)
	case free < diskspace.Daemon:
		return failFinding(fix, "%s free for %s: the AWS APIs and clusters answer, and take no changes",
			humanize.IBytes(free), h.Dir)
	case free < diskspace.Cluster:
		return failFinding(fix, "%s free for %s: the AWS APIs work; clusters answer, and take no changes; no machine is "+
			"launched, and images and log events are refused", humanize.IBytes(free), h.Dir)
	case free < diskspace.Reserve:
		return warnFinding(fix, "%s free for %s: clusters and machines work; images, log events and results of queries "+
			"are refused below %s", humanize.IBytes(free), h.Dir, humanize.IBytes(diskspace.Reserve))
	case free < 4<<30:
		return warnFinding(fix, "%s free for %s: building a version of Kubernetes takes up to 4 GiB of cache",
			humanize.IBytes(free), h.Dir)
	}
	return okFinding("%s free for %s", humanize.IBytes(free), h.Dir)
}

func checkDaemon(ctx context.Context, h Host) []Finding {
	pid, held, err := h.Dir.Holder()
	if err != nil {
		return failFinding("", "%v", err)
	}
	left, err := process.Claims(h.Dir.Owner())
	if err != nil {
		return warnFinding("", "%v", err)
	}
	if !held {
		if len(left) > 0 {
			return warnFinding("coracle up   # takes them over; coracle reset ends them",
				"not running, while %d processes of its clusters are", len(left))
		}
		return okFinding("not running; start it with: coracle up")
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	client := admin.NewClient(h.Dir.Socket())
	if err := client.Ping(ctx); err != nil {
		return failFinding(fmt.Sprintf("kill %d; coracle up   # clusters keep running; its log is %s", pid,
			h.Dir.ServeLog()),
			"process %d holds the data directory but does not answer: %v", pid, err)
	}
	if s, err := client.Status(ctx); err == nil && s.Etcd.Problem != "" {
		return failFinding("coracle status", "running, process %d, but %s", pid, s.Etcd.Problem)
	}
	return okFinding("running, process %d", pid)
}

func checkPorts(_ context.Context, h Host) []Finding {
	if _, held, err := h.Dir.Holder(); err == nil && held {
		return okFinding("%s and the others are the daemon's", h.Listen)
	}
	var all []Finding
	if l, err := net.Listen("tcp", h.Listen); err != nil {
		_, port, _ := net.SplitHostPort(h.Listen)
		all = append(all,
			failFinding(fmt.Sprintf(
				"coracle up --listen 127.0.0.1:OTHER   # or stop the program that this shows: ss -ltnp 'sport = :%s'",
				port), "%s cannot be listened on: %v", h.Listen, err)...)
	} else {
		l.Close()
	}
	left, err := process.Claims(h.Dir.Owner())
	if err != nil {
		return append(all, warnFinding("", "%v", err)...)
	}
	for _, what := range slices.Sorted(maps.Keys(h.Ports)) {
		if what == "etcd" && slices.ContainsFunc(left, func(f process.Found) bool { return f.Name == "etcd" }) {
			continue // it runs on without the daemon
		}
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(h.Ports[what])))
		if err != nil {
			all = append(all, failFinding(fmt.Sprintf("stop the program that this shows: ss -ltnp 'sport = :%d'",
				h.Ports[what]), "port %d, which %s remembers for %s, cannot be listened on: %v", h.Ports[what], h.Dir,
				what, err)...)
			continue
		}
		l.Close()
	}
	if all == nil {
		return okFinding("%s is free", h.Listen)
	}
	return all
}

// processes finds those that cannot be told from others of their name, that cannot prove to be the daemon's, and that
// belong to data directories that somebody removed by hand.
func processes(_ context.Context, h Host) []Finding {
	key, err := h.Dir.ReadProcessKey()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return failFinding("rm "+h.Dir.ProcessKeyFile()+"; coracle down; coracle up   # restarts every process", "%v",
			err)
	}
	verified, err := process.Find(process.Identity{Owner: h.Dir.Owner(), Key: key})
	if err != nil {
		return warnFinding("", "%v", err)
	}
	claims, err := process.Claims("")
	if err != nil {
		return warnFinding("", "%v", err)
	}
	var all []Finding
	for _, ambiguous := range process.Ambiguous(verified) {
		all = append(all, failFinding("kill the wrong ones, then: coracle up", "%v", ambiguous)...)
	}
	var unproven, left []string
	for _, f := range claims {
		pid := strconv.Itoa(f.PID)
		if cwd, err := os.Readlink("/proc/" + pid + "/cwd"); err == nil && strings.HasSuffix(cwd, " (deleted)") {
			left = append(left, pid)
		}
		proven := slices.ContainsFunc(verified, func(v process.Found) bool { return v.PID == f.PID })
		if f.Leader && f.Owner == h.Dir.Owner() && !proven {
			unproven = append(unproven, pid+" ("+f.Name+")")
		}
	}
	if len(unproven) > 0 {
		all = append(all,
			warnFinding(
				"coracle down; coracle up   # restarts those that nothing else stands for; coracle reset ends all",
				"processes %s claim to be this daemon's and cannot prove it: an earlier version of coracle has started "+
					"them, the key %s was lost, or they are impostors",
				strings.Join(unproven, ", "), h.Dir.ProcessKeyFile())...)
	}
	if len(left) > 0 {
		all = append(all, warnFinding("kill -9 "+strings.Join(left, " "),
			"%d processes belong to data directories that no longer exist", len(left))...)
	}
	if all == nil {
		return okFinding("every one is known, and none is left over from a removed data directory")
	}
	return all
}

func bundles(_ context.Context, h Host) []Finding {
	path, err := upstream.OpenBundles(upstream.Options{Dir: h.Bundles, DataDir: string(h.Dir)}).Find(h.Version)
	if errors.Is(err, upstream.ErrNotBuilt) {
		return warnFinding("coracle bundles "+h.Version,
			"Kubernetes %s is not built; the first cluster builds it, which takes about four minutes and needs Go",
			h.Version)
	}
	if err != nil {
		return failFinding("coracle bundles "+h.Version, "%v", err)
	}
	if out, err := exec.Command(path, "--version").CombinedOutput(); err != nil {
		return failFinding("rm -r "+filepath.Dir(path)+"; coracle bundles "+h.Version, "%s does not run: %v: %s", path,
			err,
			firstLine(out))
	}
	return okFinding("Kubernetes %s at %s", h.Version, path)
}

// checkNodes looks for what machines need of this host beside the bundles.
func checkNodes(_ context.Context, h Host) []Finding {
	if os.Geteuid() != 0 {
		return okFinding("instances are simulated: machines need root")
	}
	programs := upstream.OpenNodePrograms(upstream.Options{DataDir: string(h.Dir)})
	var all []Finding
	if _, err := programs.Path("containerd"); err != nil {
		all = append(all, warnFinding("make node",
			"what runs on nodes is not built; the first instance builds it, which takes some minutes and needs Go")...)
	}
	for _, name := range slices.Sorted(maps.Keys(upstream.OwnPrograms)) {
		if _, err := programs.Path(name); err != nil {
			all = append(all, warnFinding("make node", "%v", err)...)
		}
	}
	if _, err := programs.Image(); err != nil {
		all = append(all, warnFinding("make node", "the node image is not built; the first instance builds it, of Debian "+
			"packages that it downloads")...)
	}
	if all == nil {
		return okFinding("containerd and the node image are there")
	}
	return all
}

func checkGo(ctx context.Context, h Host) []Finding {
	const install = "install Go from https://go.dev/dl and put it on the PATH"
	path, err := exec.LookPath("go")
	if err != nil {
		return warnFinding(install,
			"no go command on the PATH: versions of Kubernetes that are not built yet cannot be")
	}
	cmd := exec.CommandContext(ctx, path, "env", "GOVERSION", "GOTOOLCHAIN")
	cmd.Dir = "/" // no go.mod may have a say
	out, err := cmd.Output()
	if err != nil {
		return warnFinding(install, "%s does not run: %v", path, err)
	}
	version, toolchain, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	if isOlder(strings.TrimPrefix(version, "go"), "1.21") {
		return warnFinding(install, "%s is too old to fetch the toolchain that Kubernetes wants by itself", version)
	}
	if toolchain == "local" && isOlder(strings.TrimPrefix(version, "go"), "1.26") {
		return warnFinding("go env -w GOTOOLCHAIN=auto",
			"%s may not fetch the newer toolchain that Kubernetes wants (GOTOOLCHAIN=local)", version)
	}
	return okFinding("%s", version)
}

var awsVersion = regexp.MustCompile(`aws-cli/(\d+)\.(\d+)\.`)

// checkAWSCLI wants a command line that knows AWS_ENDPOINT_URL and what the documentation uses: access entries, pod
// identity associations, versions of clusters. Debian 13 has 2.23.
// https://docs.aws.amazon.com/sdkref/latest/guide/feature-ss-endpoints.html
func checkAWSCLI(ctx context.Context, _ Host) []Finding {
	const guide = "https://docs.aws.amazon.com/cli/latest/userguide/getting-started-install.html"
	const install = "apt-get install -y awscli   # 1.37, 2.23 or newer; or: " + guide
	path, err := exec.LookPath("aws")
	if err != nil {
		return warnFinding(install, "no aws command on the PATH")
	}
	out, err := exec.CommandContext(ctx, path, "--version").CombinedOutput()
	match := awsVersion.FindStringSubmatch(string(out))
	if err != nil || match == nil {
		return warnFinding(install, "%s --version says %q (%v)", path, firstLine(out), err)
	}
	major, _ := strconv.Atoi(match[1])
	minor, _ := strconv.Atoi(match[2])
	version := strings.TrimSuffix(match[0], ".")
	switch {
	case major == 1 && minor < 29 || major == 2 && minor < 13:
		return warnFinding("install 1.37, 2.23 or newer: "+guide+"   # or: alias aws='aws --endpoint-url "+
			"\"$AWS_ENDPOINT_URL\"'", "%s is too old to know AWS_ENDPOINT_URL and would call the real AWS", version)
	case major == 1 && minor < 37 || major == 2 && minor < 23:
		return warnFinding("install 1.37, 2.23 or newer: "+guide,
			"%s is too old for some commands of the documentation, such as aws eks describe-cluster-versions", version)
	}
	return okFinding("%s", version)
}

func kubectl(ctx context.Context, h Host) []Finding {
	path, err := exec.LookPath("kubectl")
	if err != nil {
		fix := "coracle bundles " + h.Version + "   # then use its kubectl: DIRECTORY/v" + h.Version + "/kube kubectl"
		bundles := upstream.OpenBundles(upstream.Options{Dir: h.Bundles, DataDir: string(h.Dir)})
		if kube, err := bundles.Find(h.Version); err == nil {
			fix = "ln -s " + kube + " /usr/local/bin/kubectl"
		}
		return warnFinding(fix, "no kubectl on the PATH")
	}
	out, err := exec.CommandContext(ctx, path, "version", "--client").CombinedOutput()
	if err != nil {
		return warnFinding("install another kubectl: https://kubernetes.io/docs/tasks/tools/",
			"%s does not run: %v: %s", path,
			err, firstLine(out))
	}
	return okFinding("%s", strings.ToLower(firstLine(out)))
}

func firstLine(out []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return line
}

// isOlder compares versions of Go by their first two numbers.
func isOlder(version, than string) bool {
	var a, b [2]int
	if _, err := fmt.Sscanf(version, "%d.%d", &a[0], &a[1]); err != nil {
		return false
	}
	if _, err := fmt.Sscanf(than, "%d.%d", &b[0], &b[1]); err != nil {
		return false
	}
	return slices.Compare(a[:], b[:]) < 0
}
