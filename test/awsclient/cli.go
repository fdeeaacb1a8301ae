package awsclient

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/internal/testenv"
)

// CLI runs the unmodified aws command line as the root user of a test's account, without any configuration of the
// person who tests.
type CLI struct {
	// Home is its home directory, where it may leave files.
	Home string
	// Program is the command line; "aws" in PATH, which "make setup" installs.
	Program string

	t    testing.TB
	args []string
	env  []string
	warm *Warm
}

// NewCLI returns a command line that calls the server at url; args come first in each command: the name of the service.
func NewCLI(t testing.TB, url, region string, args ...string) *CLI {
	t.Helper()
	testenv.NeedsSetup(t)
	program, err := exec.LookPath("aws")
	if err != nil {
		t.Fatal("the aws command line is not installed: make setup installs it")
	}
	c := &CLI{Home: t.TempDir(), Program: program, t: t, warm: NewWarm(t, program)}
	// Version 2 as old as Debian's doesn't know AWS_ENDPOINT_URL.
	c.args = append([]string{"--endpoint-url", url}, args...)
	c.env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + c.Home, "AWS_REGION=" + region, "AWS_DEFAULT_REGION=" + region,
		"AWS_ACCESS_KEY_ID=AKIAROOT", "AWS_SECRET_ACCESS_KEY=secret",
		"AWS_EC2_METADATA_DISABLED=true", "AWS_MAX_ATTEMPTS=1", "AWS_PAGER=", "AWS_DEFAULT_OUTPUT=json", "TZ=UTC",
	}
	// A version manager's shim finds its versions below the real home.
	for _, keep := range []string{"PYENV_ROOT", "PYENV_VERSION"} {
		if v := os.Getenv(keep); v != "" {
			c.env = append(c.env, keep+"="+v)
		}
	}
	return c
}

// SignAs has the command line sign with another access key.
func (c *CLI) SignAs(id, secret string) {
	c.env = append(c.env, "AWS_ACCESS_KEY_ID="+id, "AWS_SECRET_ACCESS_KEY="+secret)
}

// Try runs a command, and gives back what it printed.
func (c *CLI) Try(args ...string) (string, error) {
	program := c.Program
	if program == c.warm.aws {
		program = c.warm.Program(c.env)
	}
	cmd := exec.CommandContext(c.t.Context(), program, append(c.args[:len(c.args):len(c.args)], args...)...)
	cmd.Env = c.env
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// Run runs a command that must succeed, and decodes the JSON that it prints into into unless that is nil.
func (c *CLI) Run(into any, args ...string) string {
	c.t.Helper()
	out, err := c.Try(args...)
	if err == nil && into != nil {
		err = json.Unmarshal([]byte(out), into)
	}
	if err != nil {
		c.t.Fatalf("aws %s: %v\n%s", strings.Join(append(c.args[2:], args...), " "), err, out)
	}
	return out
}

// Refused runs a command that must fail with an error's code, and a message that contains the text.
func (c *CLI) Refused(code, message string, args ...string) {
	c.t.Helper()
	out, err := c.Try(args...)
	out = strings.Replace(out, " (reached max retries: 0): ", ": ", 1) // version 2 counts
	if err == nil || !strings.Contains(out, "("+code+") when calling the ") ||
		!strings.Contains(out, message) {
		c.t.Errorf("aws %s: %v\n%s\nwant %s: …%s…", strings.Join(append(c.args[2:], args...), " "), err, out, code,
			message)
	}
}
