package awsclient

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/testenv"
)

// run is what a command did.
type run struct {
	Out, Errs, Error string
}

// shell runs a command of sh in a directory, with the given program as $0.
func shell(program, dir, command string, env ...string) run {
	cmd := exec.Command("sh", "-c", command, program)
	cmd.Dir, cmd.Env = dir, env
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	r := run{Error: fmt.Sprint(cmd.Run())}
	r.Out, r.Errs = out.String(), errs.String()
	return r
}

// A fork of the interpreter does what the start of one does, with everything that a command is given.
func TestWarmIsTheCommandLine(t *testing.T) {
	t.Parallel()
	testenv.NeedsSetup(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `<GetCallerIdentityResponse><GetCallerIdentityResult><Account>%s</Account>`+
			`</GetCallerIdentityResult></GetCallerIdentityResponse>`, r.Header.Get("Authorization")[:40])
	}))
	t.Cleanup(server.Close)
	cli := NewCLI(t, server.URL, "eu-west-1")
	if cli.warm.Program(cli.env) == cli.Program {
		t.Skipf("%s is no Python program", cli.Program)
	}
	endpoint := "AWS_ENDPOINT_URL=" + server.URL
	for name, c := range map[string]struct {
		command string
		env     []string
	}{
		"request":            {"$0 sts get-caller-identity", []string{endpoint}},
		"missing argument":   {"$0 eks describe-cluster", nil},
		"no endpoint":        {"$0 sts get-caller-identity --endpoint-url http://127.0.0.1:1", nil},
		"credentials":        {"$0 sts get-caller-identity", []string{endpoint, "AWS_ACCESS_KEY_ID=AKIAOTHER"}},
		"argument, no UTF-8": {"$0 sts get-caller-identity --query \"'\xff'\"", []string{endpoint}},
		"closed output":      {"$0 sts get-caller-identity >&-", []string{endpoint}},
		"one file":           {"$0 eks describe-cluster 2>&1", nil},
		"working directory": {"mkdir sub; echo '{}' >sub/in.json; cd sub; $0 sts get-caller-identity --cli-input-json " +
			"file://in.json", []string{endpoint}},
		"standard input": {"echo '{}' | $0 sts get-caller-identity --cli-input-json file:///dev/stdin",
			[]string{endpoint}},
		"umask":  {"umask 077; $0 configure set region x; stat -c %a .aws .aws/config; cat .aws/config", nil},
		"killed": {"$0 sts get-caller-identity & kill -9 $!; wait $!; echo $?", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var did [2]run
			for i, program := range []string{cli.Program, cli.warm.Program(cli.env)} {
				dir := t.TempDir()
				env := append(cli.env[:len(cli.env):len(cli.env)], c.env...)
				did[i] = shell(program, dir, c.command, append(env, "AWS_CONFIG_FILE="+filepath.Join(dir, ".aws/config"))...)
			}
			if diff := cmp.Diff(did[0], did[1]); diff != "" {
				t.Errorf("%s: a fork differs (-start +fork):\n%s", c.command, diff)
			}
		})
	}
}

// Commands are served, but for those for which a fork would be something else.
func TestWarmServes(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	cli := NewCLI(t, "http://127.0.0.1:1", "eu-west-1")
	client, err := os.ReadFile(cli.warm.Program(cli.env))
	if err != nil {
		t.Fatal(err)
	}
	if cli.warm.server == nil {
		t.Skipf("%s is no Python program", cli.Program)
	}
	// a client that runs another program instead of aws when it is not served
	text := strings.Replace(string(client), fmt.Sprintf("REAL, SOCKET = '%s'", cli.Program),
		"REAL, SOCKET = '/bin/false'", 1)
	if text == string(client) {
		t.Fatalf("the client has changed:\n%s", text)
	}
	program := filepath.Join(t.TempDir(), "aws")
	testenv.WriteProgram(t, program, []byte(text))
	for command, served := range map[string]bool{
		"$0 --version": true,
		"AWS_REGION=us-east-1 KUBECONFIG=x $0 --version": true,
		"$0 --version </dev/null":                        true,
		"cd /; umask 077; $0 --version":                  true,
		"HOME=/nowhere $0 --version":                     false,
		"AWS_DATA_PATH=/nowhere $0 --version":            false,
		"TZ=Asia/Tokyo $0 --version":                     false,
		"LD_PRELOAD= $0 --version":                       false,
		"PYTHONWARNINGS=error $0 --version":              false,
		"unshare --net $0 --version":                     false,
		"unshare --mount $0 --version":                   false,
		"setpriv --bounding-set -all $0 --version":       false,
		"setpriv --reuid 65534 $0 --version":             false,
		"setpriv --no-new-privs $0 --version":            false,
	} {
		if did := shell(program, t.TempDir(), command, cli.env...); (did.Error == "<nil>") != served {
			t.Errorf("%s: served: %t\n%+v", command, !served, did)
		}
	}
	if err := cli.warm.server.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cli.warm.server.Wait() // it was killed
	if did := shell(program, t.TempDir(), "$0 --version", cli.env...); did.Error != "exit status 1" {
		t.Errorf("without a server: %+v", did)
	}
}

// Who ends a command ends what it does.
func TestWarmCommandEndsWithItsClient(t *testing.T) {
	t.Parallel()
	testenv.NeedsSetup(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if err := listener.(*net.TCPListener).SetDeadline(time.Now().Add(eventually.Limit)); err != nil {
		t.Fatal(err)
	}
	cli := NewCLI(t, "http://"+listener.Addr().String(), "eu-west-1")
	ctx, cancel := context.WithTimeout(t.Context(), eventually.Limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, cli.warm.Program(cli.env), append(cli.args, "sts", "get-caller-identity")...)
	cmd.Env = cli.env
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	connection, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	cancel()
	_ = cmd.Wait() // it was killed
	if _, err := io.Copy(io.Discard, connection); err != nil {
		t.Errorf("the connection of a killed command: %v", err)
	}
}
