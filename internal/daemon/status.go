package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/admin"
	"github.com/coracle-eks/coracle/internal/datadir"
	"github.com/coracle-eks/coracle/internal/host/filetree"
	"github.com/coracle-eks/coracle/internal/process"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/version"
)

// machines are what instances are that are launched now.
func (d *daemon) machines() string {
	if d.sharedUsers != "" {
		return d.settings.Machines + ", without user namespaces (" + d.sharedUsers + ")"
	}
	return d.settings.Machines
}

// Status says how the daemon and everything that it runs are.
func (d *daemon) Status(ctx context.Context) (admin.Status, error) {
	s := admin.Status{
		Version:      version.String(),
		PID:          os.Getpid(),
		Started:      d.started,
		DataDir:      string(d.dir),
		Endpoint:     EndpointURL(d.settings.Listen),
		Webhooks:     d.webhookURL(),
		Region:       d.settings.Region,
		Machines:     d.machines(),
		DaemonMemory: memory(os.Getpid()),
	}
	var err error
	if s.Accounts, err = d.front.accounts(ctx); err != nil {
		return s, err
	}
	s.Memory = s.DaemonMemory
	s.Etcd = d.etcdStatus(ctx)
	if s.Etcd.Process != nil {
		s.Memory += s.Etcd.Process.Memory
	}
	if s.Disk, err = disk(ctx, string(d.dir)); err != nil {
		return s, err
	}
	s.Logs = d.logs.status()
	rows, err := record.Clusters(d.store).List(ctx, "")
	if err != nil {
		return s, err
	}
	for _, row := range rows {
		c := d.clusterStatus(ctx, row.Value)
		s.Memory += c.Memory
		s.Clusters = append(s.Clusters, c)
	}
	if s.Instances, err = d.instances(ctx); err != nil {
		return s, err
	}
	for _, i := range s.Instances {
		s.Memory += i.Memory
	}
	s.Host = thisHost()
	return s, nil
}

func (d *daemon) etcdStatus(ctx context.Context) admin.Etcd {
	e := admin.Etcd{Embedded: d.embedded != nil, Endpoints: d.etcd.Endpoints, Separated: d.etcd.Separates()}
	var err error
	if e.InUse, e.File, err = d.etcd.Size(ctx); err != nil {
		e.Error = err.Error()
	}
	e.Problem = d.etcd.Problem(ctx)
	if e.Embedded {
		for _, p := range d.processes.List(etcdProcess) {
			if p.Name == etcdProcess {
				c := componentStatus(p, p.Name)
				e.Process = &c
			}
		}
	}
	return e
}

// clusterStatus asks as a user would, so that it shows what a user sees.
func (d *daemon) clusterStatus(ctx context.Context, c record.Cluster) admin.Cluster {
	out := admin.Cluster{Account: c.Account, Region: c.Region, Name: c.Name, ID: c.ID, Version: c.Version}
	described, err := d.front.eks(c.Account, c.Region).DescribeCluster(ctx, &eks.DescribeClusterInput{Name: &c.Name})
	if err != nil {
		out.Status = "UNKNOWN"
		out.Issues = append(out.Issues, err.Error())
	} else {
		out.Status = string(described.Cluster.Status)
		out.Version = aws.ToString(described.Cluster.Version)
		out.Endpoint = aws.ToString(described.Cluster.Endpoint)
		if described.Cluster.Health != nil {
			for _, issue := range described.Cluster.Health.Issues {
				out.Issues = append(out.Issues, fmt.Sprintf("%s: %s", issue.Code, aws.ToString(issue.Message)))
			}
		}
	}
	prefix := c.ID + "/"
	for _, p := range d.processes.List(prefix) {
		m := componentStatus(p, strings.TrimPrefix(p.Name, prefix))
		out.Memory += m.Memory
		out.Components = append(out.Components, m)
	}
	return out
}

func componentStatus(p process.Status, name string) admin.Component {
	c := admin.Component{Name: name, Deaths: p.Deaths, LastExit: p.LastExit, Problem: p.Problem}
	if p.Running {
		c.PID, c.Started, c.Memory = p.PID, p.Started, memory(p.PID)
	}
	return c
}

// memory is the proportional set size of a process in bytes: what it would free. It is 0 where
// the kernel does not tell, as for a process that has just ended.
func memory(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(text) {
		var kib int64
		if _, err := fmt.Sscanf(string(line), "Pss: %d kB", &kib); err == nil {
			return kib << 10
		}
	}
	return 0
}

// disk returns how much space there is for a directory, and what its files take: as much of them as can be read.
func disk(ctx context.Context, dir string) (admin.Disk, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return admin.Disk{}, fmt.Errorf("file system of %s: %w", dir, err)
	}
	out := admin.Disk{Free: int64(s.Bavail) * s.Bsize, Total: int64(s.Blocks) * s.Bsize}
	// What machines have made is among it.
	count := func(at int, name string, _ bool) error {
		var st unix.Stat_t
		if err := unix.Fstatat(at, name, &st, unix.AT_SYMLINK_NOFOLLOW); err == nil { // otherwise it has vanished
			out.Used += st.Blocks * 512
		}
		return nil
	}
	// A machine that moves directories while they are walked can make them look deeper than they are.
	const deepest = 10_000
	depth := 0
	enter := func(int) error {
		if depth++; depth > deepest {
			return fmt.Errorf("directories are deeper than %d", deepest)
		}
		return ctx.Err()
	}
	leave := func(at int, name string, isDir bool) error {
		if isDir {
			depth--
		}
		return count(at, name, isDir)
	}
	_ = filetree.Walk(dir, filetree.Visitor{Enter: enter, Leave: leave}) // what cannot be read is not counted
	return out, ctx.Err()
}

// Left is what runs of a data directory without a daemon: names of processes, sorted, and which of them the next daemon
// will refuse to use.
func Left(dir datadir.Dir) (names, problems []string, err error) {
	found, err := process.Claims(dir.Owner()) // the key may be lost
	if err != nil {
		return nil, nil, err
	}
	for _, f := range found {
		if f.Leader {
			names = append(names, f.Name)
		}
	}
	slices.Sort(names)
	id, err := processIdentity(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return names, nil, nil
	}
	if err != nil {
		return names, []string{err.Error()}, nil
	}
	verified, err := process.Find(id)
	for _, ambiguous := range process.Ambiguous(verified) {
		problems = append(problems, ambiguous.Error())
	}
	return names, problems, err
}
