// Package harness runs a real coracle daemon for end-to-end tests, and the real clients against it: the aws command
// line, kubectl and the SDK.
//
// [Start] builds the daemon when it is out of date, starts `coracle serve` over a data directory of the test's own on a
// free port, and at the end of the test runs `coracle reset` and checks that nothing was left behind, in processes,
// files or the kernel. Tests that are built with -tags crashpoints run a daemon that is, too: bin/test/coracle instead
// of bin/coracle.
package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"

	"github.com/coracle-eks/coracle/internal/crash"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/testenv"
	"github.com/coracle-eks/coracle/test/awsclient"
)

// Region is the region of the tests.
const Region = "eu-west-1"

var (
	build = sync.OnceValues(func() (string, error) {
		if crash.Enabled {
			return makeDaemon("test-daemon", "test/coracle")
		}
		return release()
	})
	release = sync.OnceValues(func() (string, error) { return makeDaemon("daemon", "coracle") })
)

// envBuilt is set by "make test" to the directory in which it has built all that tests run. Without it, as in a test
// that is run by hand, each package has make see what is out of date.
const envBuilt = "CORACLE_TEST_BUILT"

// makeDaemon builds a target of the Makefile, which makes the named program below bin.
func makeDaemon(target, name string) (string, error) {
	bin := filepath.Join(testenv.Root(), "bin")
	if os.Getenv(envBuilt) == testenv.Root() {
		return filepath.Join(bin, name), nil
	}
	// The test binaries of several packages run at once and one of them builds.
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return "", err
	}
	lock, err := os.OpenFile(filepath.Join(bin, ".daemon.lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", err
	}
	cmd := exec.Command("make", target, "node")
	cmd.Dir = testenv.Root()
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("make %s node: %w\n%s", target, err, text)
	}
	return filepath.Join(bin, name), nil
}

// Binary returns the path of the daemon that tests run, up to date.
func Binary(t testing.TB) string { return built(t, build) }

// Release returns the path of bin/coracle, up to date: the program that users run.
func Release(t testing.TB) string { return built(t, release) }

func built(t testing.TB, build func() (string, error)) string {
	t.Helper()
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Daemon is a `coracle serve` of a test's own.
type Daemon struct {
	Dir      string // its data directory
	Endpoint string // http://127.0.0.1:port
	// Env is the output of `coracle env`, as KEY=value.
	Env []string

	t      testing.TB
	binary string
	listen string
	extra  []string // environment of the daemon itself
	within []string // the command that runs the daemon with its arguments, on a host that lacks something
	home   string
	log    *os.File
	logins sync.Map        // *login by kubeconfig
	warm   *awsclient.Warm // nil without the aws command line

	mu     sync.Mutex
	serve  *exec.Cmd
	exited chan struct{}
}

// Start starts a daemon that goes with the test. extraEnv (KEY=value) is added to its environment.
func Start(t testing.TB, extraEnv ...string) *Daemon {
	t.Helper()
	return StartWithin(t, nil, extraEnv...)
}

// StartWithin starts a daemon as [Start] does, by a command that executes its arguments, such as "setpriv".
func StartWithin(t testing.TB, within []string, extraEnv ...string) *Daemon {
	t.Helper()
	return start(t, Binary(t), within, append(programs(), extraEnv...))
}

// StartDistribution starts the coracle of an unpacked archive of "make dist", which finds its programs beside itself.
func StartDistribution(t testing.TB, binary string) *Daemon {
	t.Helper()
	return start(t, binary, nil, []string{"CORACLE_BUNDLES=", "CORACLE_NODE="})
}

func start(t testing.TB, binary string, within, extraEnv []string) *Daemon {
	t.Helper()
	// Not t.TempDir: its name is long, and unix sockets' paths are short.
	dir, err := os.MkdirTemp("", "coracle-test-")
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(dir, "serve.log"))
	if err != nil {
		t.Fatal(err)
	}
	d := &Daemon{
		Dir:    filepath.Join(dir, "data"),
		t:      t,
		binary: binary,
		listen: FreeAddress(t),
		extra:  extraEnv,
		within: within,
		home:   dir,
		log:    log,
	}
	d.Endpoint = "http://" + d.listen
	if aws, err := exec.LookPath("aws"); err == nil {
		d.warm = awsclient.NewWarm(t, aws)
	}
	t.Cleanup(func() {
		d.Kill()
		log.Close()
		failed := t.Failed()
		if failed { // before the logs of clusters are removed
			d.showLogs()
		}
		if out, err := exec.Command(d.binary, "reset", "--yes", "--data-dir", d.Dir).CombinedOutput(); err != nil {
			t.Errorf("coracle reset: %v\n%s", err, out)
		}
		if left := d.Processes(); len(left) > 0 {
			t.Errorf("coracle reset left processes:\n%s", strings.Join(left, "\n"))
		}
		if left := d.remains(); len(left) > 0 {
			t.Errorf("coracle reset left:\n%s", strings.Join(left, "\n"))
		}
		if !failed && t.Failed() {
			d.showLogs()
		}
		os.RemoveAll(dir)
	})
	d.Serve()
	out, err := exec.Command(d.binary, "env", "--data-dir", d.Dir).Output()
	if err != nil {
		t.Fatalf("coracle env: %v", err)
	}
	for line := range strings.Lines(string(out)) {
		if kv, ok := strings.CutPrefix(strings.TrimSpace(line), "export "); ok {
			k, v, _ := strings.Cut(kv, "=")
			d.Env = append(d.Env, k+"="+strings.Trim(v, `'"`))
		}
	}
	return d
}

// showLogs prints how the logs end that tell why a test has failed: the daemon's, and of each cluster those that tell
// why somebody was not let in.
func (d *Daemon) showLogs() {
	if text, err := os.ReadFile(d.log.Name()); err == nil {
		d.t.Logf("the daemon's log ends:\n%s", tail(text, 60))
	}
	for _, component := range []string{"authenticator", "kube-apiserver"} {
		logs, _ := filepath.Glob(filepath.Join(d.Dir, "clusters", "*", "log", component+".log"))
		for _, name := range logs {
			if text, err := os.ReadFile(name); err == nil && len(text) > 0 {
				d.t.Logf("%s ends:\n%s", name, tail(text, 10))
			}
		}
	}
}

// FreeAddress returns a loopback address that no process listens on.
func FreeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// Serve starts the daemon over the data directory and waits until it is healthy.
func (d *Daemon) Serve() {
	d.t.Helper()
	d.Launch()
	if err := d.Healthy(); err != nil {
		d.t.Fatal(err)
	}
}

// Launch starts the daemon and does not wait.
func (d *Daemon) Launch() {
	d.t.Helper()
	args := append(slices.Clone(d.within), d.binary, "serve", "--data-dir", d.Dir, "--listen", d.listen,
		"--region", Region)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), d.extra...)
	cmd.Stdout, cmd.Stderr = d.log, d.log
	if err := cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait() // a killed daemon's exit status says nothing
		close(exited)
	}()
	d.mu.Lock()
	d.serve, d.exited = cmd, exited
	d.mu.Unlock()
}

// programs returns the variables that name the directories of what "make" has built.
func programs() []string {
	return []string{"CORACLE_BUNDLES=" + filepath.Join(testenv.Root(), "bin", "bundles"), "CORACLE_NODE=" +
		filepath.Join(testenv.Root(), "bin", "node")}
}

// Log returns what the daemons of this data directory have logged so far.
func (d *Daemon) Log() string {
	d.t.Helper()
	text, err := os.ReadFile(d.log.Name())
	if err != nil {
		d.t.Fatal(err)
	}
	return string(text)
}

// SetExtraEnv replaces what is added to the environment of the next Launch.
func (d *Daemon) SetExtraEnv(env ...string) { d.extra = append(programs(), env...) }

// SetWithin replaces the command that runs the daemon of the next Launch with its arguments.
func (d *Daemon) SetWithin(within ...string) { d.within = within }

// SetBinary replaces the program that the next Launch and Command run, as an upgrade of Coracle does.
func (d *Daemon) SetBinary(path string) { d.binary = path }

// Healthy waits until GET /healthz answers 200.
func (d *Daemon) Healthy() error {
	return eventually.Try(5*time.Millisecond, func() error {
		select {
		case <-d.Exited():
			text, _ := os.ReadFile(d.log.Name())
			return eventually.Never(fmt.Errorf("coracle serve exited; its log ends:\n%s", tail(text, 30)))
		default:
		}
		resp, err := http.Get(d.Endpoint + "/healthz")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != 200 {
			return fmt.Errorf("GET /healthz: %s", resp.Status)
		}
		return nil
	})
}

// Exited returns a channel that is closed when the daemon that was last launched is gone.
func (d *Daemon) Exited() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.exited
}

// Kill ends the daemon with SIGKILL and waits for its end. What it started lives on.
func (d *Daemon) Kill() {
	d.mu.Lock()
	cmd, exited := d.serve, d.exited
	d.mu.Unlock()
	if cmd == nil {
		return
	}
	_ = cmd.Process.Signal(syscall.SIGKILL) // it may have ended by itself
	<-exited
}

// Restart kills the daemon and starts it again.
func (d *Daemon) Restart() {
	d.t.Helper()
	d.Kill()
	d.Serve()
}

// PID returns the process ID of the daemon that was last launched.
func (d *Daemon) PID() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.serve.Process.Pid
}

// Processes returns the command lines of all processes that name the data directory in their arguments or environment,
// "pid command line".
func (d *Daemon) Processes() []string {
	var found []string
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range dirs {
		if p == fmt.Sprintf("/proc/%d", os.Getpid()) {
			continue
		}
		cmdline, _ := os.ReadFile(p + "/cmdline")
		environ, _ := os.ReadFile(p + "/environ")
		if d.warm != nil && d.warm.Serves(cmdline) {
			continue
		}
		if bytes.Contains(cmdline, []byte(d.Dir)) || bytes.Contains(environ, []byte(d.Dir)) {
			found = append(found, filepath.Base(p)+" "+strings.ReplaceAll(string(cmdline), "\x00", " "))
		}
	}
	return found
}

// Variable returns a variable that `coracle env` printed.
func (d *Daemon) Variable(name string) string {
	for _, kv := range d.Env {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v
		}
	}
	return ""
}

// Config returns the SDK's configuration for the account's root user.
func (d *Daemon) Config() aws.Config {
	return d.ConfigFor(d.Variable("AWS_ACCESS_KEY_ID"), d.Variable("AWS_SECRET_ACCESS_KEY"), "")
}

// ConfigFor returns the SDK's configuration for the holder of an access key.
func (d *Daemon) ConfigFor(id, secret, session string) aws.Config {
	return aws.Config{
		Region:           Region,
		BaseEndpoint:     aws.String(d.Endpoint),
		Credentials:      credentials.NewStaticCredentialsProvider(id, secret, session),
		RetryMaxAttempts: 1,
		HTTPClient:       awsclient.HTTP(),
	}
}

// Command returns a command of one of the real clients, in the environment that `coracle env` prints. kubeconfig may be
// empty. When [Daemon.KeepToken] fails, the command does not start and returns its error.
func (d *Daemon) Command(ctx context.Context, kubeconfig, name string, args ...string) *exec.Cmd {
	if name == "coracle" {
		name = d.binary
	}
	cmd := exec.CommandContext(ctx, name, args...)
	if cmd.Err == nil {
		cmd.Err = d.refresh(ctx, kubeconfig)
	}
	cmd.Env = append(append(append(os.Environ(), programs()...), d.Env...),
		"HOME="+d.home, // no ~/.aws or ~/.kube of the person who runs the tests
		"PYENV_VERSION="+os.Getenv("PYENV_VERSION"),
		"AWS_PAGER=", "AWS_MAX_ATTEMPTS=1", "AWS_EC2_METADATA_DISABLED=true",
		"KUBECONFIG="+kubeconfig)
	if d.warm != nil { // also for kubectl and others, which find aws in PATH
		cmd.Env = append(cmd.Env, "PATH="+d.warm.Dir+string(os.PathListSeparator)+os.Getenv("PATH"))
		if name == "aws" {
			cmd.Path = d.warm.Program(cmd.Env)
		}
	}
	return cmd
}

// Try runs a command and gives back what it printed.
func (d *Daemon) Try(kubeconfig, name string, args ...string) (stdout, stderr string, err error) {
	// a command that waits for the limit then says for what
	ctx, cancel := context.WithTimeout(context.Background(), eventually.Limit+time.Minute)
	defer cancel()
	cmd := d.Command(ctx, kubeconfig, name, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

// Run runs a command that must succeed and gives back its standard output.
func (d *Daemon) Run(kubeconfig, name string, args ...string) string {
	d.t.Helper()
	out, errs, err := d.Try(kubeconfig, name, args...)
	if err != nil {
		d.t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out, errs)
	}
	return out
}

// AWS runs the unmodified aws command line, which must succeed, and decodes its JSON into
// into unless that is nil.
func (d *Daemon) AWS(into any, args ...string) string {
	d.t.Helper()
	out := d.Run("", "aws", append(args, "--output", "json")...)
	if into != nil {
		if err := json.Unmarshal([]byte(out), into); err != nil {
			d.t.Fatalf("aws %s printed no JSON: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	return out
}

// ClusterRole makes the role that clusters run under and returns its ARN.
func (d *Daemon) ClusterRole() string {
	d.t.Helper()
	ctx := context.Background()
	client := iam.NewFromConfig(d.Config())
	out, err := client.CreateRole(ctx, &iam.CreateRoleInput{
		RoleName: aws.String("eks-service"),
		AssumeRolePolicyDocument: aws.String(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow",
			"Principal":{"Service":"eks.amazonaws.com"},"Action":"sts:AssumeRole"}]}`),
	})
	if err != nil {
		d.t.Fatal(err)
	}
	_, err = client.AttachRolePolicy(ctx, &iam.AttachRolePolicyInput{
		RoleName: aws.String("eks-service"), PolicyArn: aws.String("arn:aws:iam::aws:policy/AmazonEKSClusterPolicy"),
	})
	if err != nil {
		d.t.Fatal(err)
	}
	return *out.Role.Arn
}

// Subnets returns two subnets of the default VPC in different zones.
func (d *Daemon) Subnets() []string {
	d.t.Helper()
	out, err := ec2.NewFromConfig(d.Config()).DescribeSubnets(context.Background(), &ec2.DescribeSubnetsInput{})
	if err != nil {
		d.t.Fatal(err)
	}
	if len(out.Subnets) < 2 {
		d.t.Fatalf("the default VPC has %d subnets", len(out.Subnets))
	}
	return []string{*out.Subnets[0].SubnetId, *out.Subnets[1].SubnetId}
}

// RoomySubnets makes a VPC whose two subnets have addresses for thousands of nodes and their pods.
func (d *Daemon) RoomySubnets() (subnets []string) {
	d.t.Helper()
	ctx, client := context.Background(), ec2.NewFromConfig(d.Config())
	vpc, err := client.CreateVpc(ctx, &ec2.CreateVpcInput{CidrBlock: aws.String("10.0.0.0/16")})
	if err != nil {
		d.t.Fatal(err)
	}
	for i, zone := range []string{"a", "b"} {
		out, err := client.CreateSubnet(ctx, &ec2.CreateSubnetInput{
			VpcId: vpc.Vpc.VpcId, CidrBlock: aws.String(fmt.Sprintf("10.0.%d.0/17", 128*i)),
			AvailabilityZone: aws.String(Region + zone),
		})
		if err != nil {
			d.t.Fatal(err)
		}
		subnets = append(subnets, *out.Subnet.SubnetId)
	}
	return subnets
}

// CreateCluster asks for a cluster with access entries and aws-auth; it does not wait.
func (d *Daemon) CreateCluster(name, version, role string, subnets []string) {
	d.t.Helper()
	_, err := eks.NewFromConfig(d.Config()).CreateCluster(context.Background(), &eks.CreateClusterInput{
		Name: aws.String(name), Version: aws.String(version), RoleArn: aws.String(role),
		ResourcesVpcConfig: &ekstypes.VpcConfigRequest{SubnetIds: subnets},
		AccessConfig: &ekstypes.CreateAccessConfigRequest{
			AuthenticationMode: ekstypes.AuthenticationModeApiAndConfigMap},
	})
	if err != nil {
		d.t.Fatalf("create cluster %s: %v", name, err)
	}
}

// AwaitStatus waits until the cluster has the status, and gives it back.
func (d *Daemon) AwaitStatus(name string, want ekstypes.ClusterStatus) *ekstypes.Cluster {
	d.t.Helper()
	client := eks.NewFromConfig(d.Config())
	var found *ekstypes.Cluster
	err := eventually.Try(20*time.Millisecond, func() error {
		out, err := client.DescribeCluster(context.Background(), &eks.DescribeClusterInput{Name: aws.String(name)})
		if err != nil {
			return err
		}
		found = out.Cluster
		if found.Status == want {
			return nil
		}
		if found.Status == ekstypes.ClusterStatusFailed {
			return eventually.Never(fmt.Errorf("cluster %s is FAILED: %s", name, Text(found.Health)))
		}
		return fmt.Errorf("cluster %s is %s, not %s", name, found.Status, want)
	})
	if err != nil {
		d.t.Fatal(err)
	}
	return found
}

// AwaitGone waits until DescribeCluster no longer finds the cluster.
func (d *Daemon) AwaitGone(name string) {
	d.t.Helper()
	client := eks.NewFromConfig(d.Config())
	err := eventually.Try(20*time.Millisecond, func() error {
		_, err := client.DescribeCluster(context.Background(), &eks.DescribeClusterInput{Name: aws.String(name)})
		var gone *ekstypes.ResourceNotFoundException
		if errors.As(err, &gone) {
			return nil
		}
		return fmt.Errorf("cluster %s is still described: %v", name, err)
	})
	if err != nil {
		d.t.Fatal(err)
	}
}

// Kubeconfig writes a kubeconfig for the cluster with `aws eks update-kubeconfig`.
func (d *Daemon) Kubeconfig(cluster string) string {
	d.t.Helper()
	path := filepath.Join(d.home, "kubeconfig-"+cluster)
	d.Run("", "aws", "eks", "update-kubeconfig", "--name", cluster, "--kubeconfig", path)
	return path
}

// Text returns v as JSON, for messages.
func Text(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func tail(text []byte, lines int) string {
	all := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
