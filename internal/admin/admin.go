// Package admin connects the commands of this program with the running daemon: JSON over HTTP over a unix socket in the
// data directory that only its owner can open.
//
//	POST /accounts       creates an account; answers its root access key
//	GET  /backup         the archive of package backup
//	GET  /backup/volumes the same, with the content of volumes and snapshots
//	POST /console        makes a link that signs in to the console; answers ConsoleLink
//	POST /console/await  ConsoleLink; answers when it has been used
//	GET  /debug/dump     Dump
//	GET  /debug/pprof/…  profiles of the Go runtime
//	GET  /denials        []Denial of an account
//	POST /fargate/patches  PatchRequest; answers Patched
//	POST /fields         fields.Question; answers fields.Answer
//	POST /identity       IdentityQuestion; answers Identity
//	GET  /images         []Image
//	POST /images         an archive of images; answers Loaded
//	POST /interruptions  gives a spot instance notice; answers Interruption
//	GET  /metrics        metrics for Prometheus
//	GET  /ping           {}
//	GET  /status         Status
//	POST /stop           ends the daemon; what it runs goes on
package admin

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

// Status is the status of a daemon and of what it runs.
type Status struct {
	Version string    `json:"version"`
	PID     int       `json:"pid"`
	Started time.Time `json:"started"`
	DataDir string    `json:"dataDir"`
	// Endpoint is the AWS endpoint URL; Webhooks where API servers reach the daemon.
	Endpoint string   `json:"endpoint"`
	Webhooks string   `json:"webhooks"`
	Region   string   `json:"region"`
	Accounts []string `json:"accounts"`
	Machines string   `json:"machines"`
	// Memory is the memory of the daemon, etcd and all clusters together, in bytes of proportional set size (PSS);
	// DaemonMemory is the daemon's own part.
	Memory       int64     `json:"memoryBytes"`
	DaemonMemory int64     `json:"daemonMemoryBytes"`
	Etcd         Etcd      `json:"etcd"`
	Disk         Disk      `json:"disk"`
	Logs         Logs      `json:"logs"`
	Clusters     []Cluster `json:"clusters"`
	// Instances are those of EC2 that are not terminated, and Host what they share.
	Instances []Instance `json:"instances"`
	Host      Host       `json:"host"`
	// Volumes are the EBS volumes that have disks, and the snapshots that failed.
	Volumes []Volume `json:"volumes"`
	// FileSystems are those of EFS.
	FileSystems []FileSystem `json:"fileSystems"`
	// LoadBalancers are those of Elastic Load Balancing.
	LoadBalancers []LoadBalancer `json:"loadBalancers"`
	// Stacks are those of CloudFormation that are not deleted.
	Stacks []Stack `json:"stacks"`
	// Builds are the programs that are being built, and Images the images that are being built or fetched.
	Builds []Build  `json:"builds"`
	Images []string `json:"images"`
}

// Build is a build of programs that is under way.
type Build struct {
	Title   string `json:"title"` // "Kubernetes 1.35"
	Step    string `json:"step"`  // "Kubernetes 1.35: compiling 120 of 1400 packages"
	Percent int    `json:"percent"`
}

// Host is the machine that everything runs on.
type Host struct {
	CPUs   int   `json:"cpus"`
	Memory int64 `json:"memoryBytes"`
}

// Instance is an EC2 instance.
type Instance struct {
	Account   string `json:"account"`
	Region    string `json:"region"`
	ID        string `json:"id"`
	Name      string `json:"name,omitempty"` // the tag; of the machine of a Fargate pod, the node
	State     string `json:"state"`
	Type      string `json:"type"`              // "fargate" for the machine of a Fargate pod
	Address   string `json:"address,omitempty"` // private
	CPUs      int    `json:"cpus"`              // of its type
	Limit     int64  `json:"limitBytes"`        // the memory of its type
	Memory    int64  `json:"memoryBytes"`       // that its processes take (PSS)
	Processes int    `json:"processes"`
	// Issues are the problems that a user would look for: a boot script that failed, a machine that could not be
	// started.
	Issues []string `json:"issues,omitempty"`
}

// Volume is an EBS volume or snapshot.
type Volume struct {
	Account   string   `json:"account"`
	Region    string   `json:"region"`
	ID        string   `json:"id"`
	Size      int64    `json:"size"` // bytes
	Type      string   `json:"type"` // "gp3", or "snapshot"
	Instances []string `json:"instances,omitempty"`
	Issues    []string `json:"issues,omitempty"`
}

// FileSystem is an EFS file system.
type FileSystem struct {
	Account   string   `json:"account"`
	Region    string   `json:"region"`
	ID        string   `json:"id"`
	Name      string   `json:"name,omitempty"` // the tag
	Size      int64    `json:"size"`           // bytes that its files take
	State     string   `json:"state"`
	Addresses []string `json:"addresses,omitempty"` // of its mount targets
	Issues    []string `json:"issues,omitempty"`
}

// LoadBalancer is a load balancer of either API.
type LoadBalancer struct {
	Account string `json:"account"`
	Region  string `json:"region"`
	Name    string `json:"name"`
	Kind    string `json:"kind"` // "classic", "network"
	State   string `json:"state"`
	DNSName string `json:"dnsName"`
	// Service is the Kubernetes Service that it was made for: "default/web".
	Service string   `json:"service,omitempty"`
	Targets int      `json:"targets"`
	Healthy int      `json:"healthyTargets"`
	Issues  []string `json:"issues,omitempty"`
}

// Stack is a CloudFormation stack.
type Stack struct {
	Account string `json:"account"`
	Region  string `json:"region"`
	Name    string `json:"name"`
	ID      string `json:"id"` // the ARN
	Status  string `json:"status"`
	// Pending are the resources that the stack waits for.
	Pending []PendingResource `json:"pending,omitempty"`
	// Issues are why the last operation failed, or makes no progress.
	Issues []string `json:"issues,omitempty"`
}

// PendingResource is a resource of a stack that is being created, changed or deleted.
type PendingResource struct {
	LogicalID string    `json:"logicalId"`
	Type      string    `json:"type"`
	Status    string    `json:"status"`
	Since     time.Time `json:"since"`
}

// Etcd is the store's etcd.
type Etcd struct {
	Embedded  bool     `json:"embedded"`
	Endpoints []string `json:"endpoints"`
	// Separated reports whether clusters have etcd users of their own.
	Separated bool       `json:"separated"`
	InUse     int64      `json:"inUseBytes"`
	File      int64      `json:"fileBytes"`
	Process   *Component `json:"process,omitempty"` // when embedded
	// Error explains why the sizes are not known.
	Error string `json:"error,omitempty"`
	// Problem explains why etcd takes no writes, and what to do.
	Problem string `json:"problem,omitempty"`
}

// Disk is the file system of the data directory.
type Disk struct {
	Used  int64 `json:"usedBytes"` // by the data directory
	Free  int64 `json:"freeBytes"`
	Total int64 `json:"totalBytes"`
}

// Logs are the log events of CloudWatch Logs.
type Logs struct {
	Groups int   `json:"groups"` // that hold any
	Events int64 `json:"events"`
	Stored int64 `json:"storedBytes"` // of messages, as AWS counts them
	Disk   int64 `json:"diskBytes"`   // that they take
}

// Cluster is an EKS cluster.
type Cluster struct {
	Account    string      `json:"account"`
	Region     string      `json:"region"`
	Name       string      `json:"name"`
	ID         string      `json:"id"`
	Status     string      `json:"status"`
	Version    string      `json:"version"`
	Endpoint   string      `json:"endpoint,omitempty"`
	Memory     int64       `json:"memoryBytes"`
	Issues     []string    `json:"issues,omitempty"`
	Components []Component `json:"components"`
}

// Component is a process.
type Component struct {
	Name     string    `json:"name"`
	PID      int       `json:"pid,omitempty"` // 0 when it does not run
	Started  time.Time `json:"started,omitzero"`
	Memory   int64     `json:"memoryBytes"`
	Deaths   int       `json:"deaths,omitempty"` // in a row
	LastExit string    `json:"lastExit,omitempty"`
	// Problem explains why a process is neither used nor ended, although some run under its name.
	Problem string `json:"problem,omitempty"`
}

// Account is an account with its root access key.
type Account struct {
	Account         string `json:"account"`
	AccessKeyID     string `json:"accessKeyId,omitempty"`
	SecretAccessKey string `json:"secretAccessKey,omitempty"`
}

// Interruption is the notice of a spot instance that it is taken away.
type Interruption struct {
	Instance string    `json:"instance"`
	At       time.Time `json:"at,omitzero"`
}

// ErrNotRunning reports that no daemon takes commands in a data directory.
var ErrNotRunning = errors.New("the daemon is not running")

// reachable returns path, or where it is too long for a socket address (108 bytes) an equivalent through the
// directory's file descriptor. The caller calls close after it has used the address.
func reachable(path string) (address string, close func(), err error) {
	if len(path) < 100 {
		return path, func() {}, nil
	}
	if runtime.GOOS != "linux" {
		return "", nil, fmt.Errorf("socket %s: the path is too long for this system: give --data-dir a shorter one",
			path)
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path)), func() { dir.Close() }, nil
}

// listenUnix replaces the socket that an earlier daemon may have left. The caller holds the lock
// of the data directory, so nobody listens on it.
func listenUnix(path string) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	address, done, err := reachable(path)
	if err != nil {
		return nil, err
	}
	defer done()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: address, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	l.SetUnlinkOnClose(false) // by the address, which may be valid no more
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}
