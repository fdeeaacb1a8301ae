//go:build unix

package coracletest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/coracle-eks/coracle/internal/freeport"
)

// The environment variables that [Start] reads.
const (
	// EnvProgram names the coracle program; "coracle" on the PATH when empty.
	EnvProgram = "CORACLETEST_PROGRAM"
	// EnvDataDir names the data directory of a daemon that is running, to use instead of a new one.
	EnvDataDir = "CORACLETEST_DATA_DIR"
)

// Region is the AWS region of the configurations that [Coracle.AWSConfig] returns.
const Region = "eu-west-1"

// startTimeout is the time that a daemon may take to become healthy, and an account to be created.
const startTimeout = 2 * time.Minute

// Coracle is an AWS account of a test, at the daemon of the test binary. Its methods may be called concurrently.
type Coracle struct {
	daemon      *daemon
	account     string
	environment map[string]string // what "coracle env" exports
}

// Start makes an AWS account for the test, at the daemon that all tests of the binary share and that the first Start
// starts. It fails the test if there is no coracle program or its daemon does not become healthy.
func Start(t testing.TB) *Coracle {
	t.Helper()
	d, err := shared()
	if err != nil {
		t.Fatalf("start Coracle: %v", err)
	}
	from := d.logSize()
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		if text := d.logSince(from); text != "" {
			t.Logf("Coracle logged during the test:\n%s", text)
		}
	})
	c, err := d.createAccount()
	if err != nil {
		t.Fatalf("make an AWS account: %v", err)
	}
	return c
}

// Account returns the twelve digits of the test's AWS account.
func (c *Coracle) Account() string { return c.account }

// Endpoint returns the URL at which all AWS APIs answer.
func (c *Coracle) Endpoint() string { return c.environment["AWS_ENDPOINT_URL"] }

// DataDir returns the data directory of the daemon, for "coracle status", "coracle exec" and "coracle audit", whose
// flag --data-dir names it.
func (c *Coracle) DataDir() string { return c.daemon.dir }

// AWSConfig returns a configuration for clients of the AWS SDK, with the root credentials of the account.
func (c *Coracle) AWSConfig() aws.Config {
	return aws.Config{
		Region: Region, BaseEndpoint: aws.String(c.Endpoint()),
		Credentials: credentials.NewStaticCredentialsProvider(c.environment["AWS_ACCESS_KEY_ID"],
			c.environment["AWS_SECRET_ACCESS_KEY"], ""),
	}
}

// Environ returns the environment of the test with which programs that it starts use the account: "aws", "eksctl",
// "terraform", a controller. Variables of AWS that the test itself has are left out.
func (c *Coracle) Environ() []string {
	var environment []string
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "AWS_") {
			environment = append(environment, variable)
		}
	}
	for name, value := range c.environment {
		environment = append(environment, name+"="+value)
	}
	return append(environment, "AWS_REGION="+Region, "AWS_DEFAULT_REGION="+Region)
}

// daemon is a running daemon.
type daemon struct {
	program, dir, log string
}

// shared returns the daemon of this test binary.
var shared = sync.OnceValues(func() (*daemon, error) {
	program, err := exec.LookPath(cmp.Or(os.Getenv(EnvProgram), "coracle"))
	if err != nil {
		return nil, fmt.Errorf("%w: install coracle (https://github.com/coracle-eks/coracle), or name the program in %s",
			err, EnvProgram)
	}
	if program, err = filepath.Abs(program); err != nil {
		return nil, err
	}
	if dir := os.Getenv(EnvDataDir); dir != "" {
		d := &daemon{program: program, dir: dir, log: filepath.Join(dir, "serve.log")}
		if _, err := d.run("status"); err != nil {
			return nil, fmt.Errorf("use the daemon that %s names: %w", EnvDataDir, err)
		}
		return d, nil
	}
	// Paths of unix sockets are short.
	root, err := os.MkdirTemp("", "coracletest-")
	if err != nil {
		return nil, err
	}
	d := &daemon{program: program, dir: filepath.Join(root, "data")}
	d.log = filepath.Join(d.dir, "serve.log")
	if err := d.resetAtExit(root); err != nil {
		return nil, err
	}
	listen, err := freeport.Find()
	if err != nil {
		return nil, err
	}
	if _, err := d.run("up", "--listen", fmt.Sprintf("127.0.0.1:%d", listen), "--region", Region); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, d.logSince(0))
	}
	return d, nil
})

// keeper waits until its standard input ends, which is when the process that started it does.
const keeper = `cat; "$0" reset --yes --data-dir "$1"; rm -rf "$2"`

// resetAtExit ends the daemon, and all that it has started, when this process ends, also when it is killed.
func (d *daemon) resetAtExit(root string) error {
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer read.Close()
	cmd := exec.Command("sh", "-c", keeper, d.program, d.dir, root)
	cmd.Stdin, cmd.Dir = read, "/"
	detach(cmd)
	if err := cmd.Start(); err != nil {
		return errors.Join(err, write.Close())
	}
	alive = write
	return nil
}

// alive is the other end of the keeper's standard input. It is never closed: the process ends.
var alive io.Closer

// run runs a command of coracle and returns what it prints.
func (d *daemon) run(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, d.program, append(args, "--data-dir", d.dir)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.WaitDelay = time.Second // the daemon may have the other end of a pipe
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("coracle %s: %w: %s", args[0], err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// createAccount makes an account with a number that no other has.
func (d *daemon) createAccount() (*Coracle, error) {
	var failures error
	for range 5 { // tests of several binaries may share a daemon
		account := fmt.Sprintf("%012d", 100_000_000_000+rand.Int64N(900_000_000_000))
		if _, err := d.run("account", "create", account); err != nil {
			failures = errors.Join(failures, err)
			continue
		}
		out, err := d.run("env", "--account", account)
		if err != nil {
			return nil, err
		}
		c := &Coracle{daemon: d, account: account, environment: make(map[string]string)}
		for line := range strings.Lines(out) {
			if variable, ok := strings.CutPrefix(strings.TrimSpace(line), "export "); ok {
				name, value, _ := strings.Cut(variable, "=")
				c.environment[name] = strings.Trim(value, `'"`)
			}
		}
		return c, nil
	}
	return nil, failures
}

// logSize returns how much the daemon has logged, in bytes.
func (d *daemon) logSize() int64 {
	info, err := os.Stat(d.log)
	if err != nil {
		return 0
	}
	return info.Size()
}

// maxLog is the number of bytes of a log that are shown.
const maxLog = 64 << 10

// logSince returns what the daemon has logged since its log had a size; of much, the end.
func (d *daemon) logSince(size int64) string {
	f, err := os.Open(d.log)
	if err != nil {
		return ""
	}
	defer f.Close()
	if _, err := f.Seek(max(size, d.logSize()-maxLog), io.SeekStart); err != nil {
		return ""
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return ""
	}
	return string(text)
}
