package awsclient

import (
	"bufio"
	_ "embed"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

//go:embed warm/sitecustomize.py
var sitecustomize []byte

// Warm runs the unmodified aws command line in forks of an interpreter that has imported it, in a quarter of the
// processor time that the start of Python takes; see warm/sitecustomize.py. An aws that is no Python program, and a
// command that a fork would run in another way, are run as they are.
type Warm struct {
	// Dir has the client, the program "aws", once a command was run: for PATH of programs that run aws themselves.
	Dir string

	aws    string // the path of the real program
	mu     sync.Mutex
	tried  bool
	server *exec.Cmd
	input  io.Closer // the server ends when it is closed, and so when this process ends
}

// unable has the programs whose interpreters do not become servers, so that no test tries again.
var unable sync.Map

// NewWarm returns the command line for a test, at the end of which its server ends. aws is the path of the program.
func NewWarm(t testing.TB, aws string) *Warm {
	t.Helper()
	dir, err := os.MkdirTemp("", "aws-") // not t.TempDir: paths of sockets are short
	if err != nil {
		t.Fatal(err)
	}
	w := &Warm{Dir: dir, aws: aws}
	t.Cleanup(func() {
		w.Stop()
		os.RemoveAll(dir)
	})
	return w
}

// Program returns the path of the program to run for commands with that environment (KEY=value). The environments of
// commands may differ in the variables that aws reads while it runs a command, AWS_*; others run the real program.
func (w *Warm) Program(env []string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, known := unable.Load(w.aws); known {
		return w.aws
	}
	if !w.tried && !w.start(env) {
		w.stop()
		unable.Store(w.aws, true)
	}
	w.tried = true
	if w.server == nil {
		return w.aws
	}
	return filepath.Join(w.Dir, "aws")
}

// start reports whether the server is ready. The reason why it is not does not matter: the real program runs then.
func (w *Warm) start(env []string) bool {
	env = (&exec.Cmd{Env: env}).Environ() // of duplicates, the one that counts
	// Commands bring their own credentials, which no other process and no file has to have.
	env = slices.DeleteFunc(env, func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return strings.HasPrefix(name, "AWS_") && name != "AWS_ENDPOINT_URL" && name != "AWS_DATA_PATH"
	})
	modules := w.Dir
	for _, e := range env {
		if value, found := strings.CutPrefix(e, "PYTHONPATH="); found && value != "" {
			modules += string(os.PathListSeparator) + value
		}
	}
	for name, content := range map[string][]byte{"sitecustomize.py": sitecustomize, "real": []byte(w.aws),
		"environment": []byte(strings.Join(env, "\x00"))} {
		if os.WriteFile(filepath.Join(w.Dir, name), content, 0o600) != nil {
			return false
		}
	}
	server := exec.Command(w.aws, "warm", w.Dir) // no command of aws, which ends with an error if it runs that
	server.Env = append(env, "CORACLE_WARM_AWS="+w.Dir, "PYTHONPATH="+modules)
	input, err := server.StdinPipe()
	if err != nil {
		return false
	}
	output, err := server.StdoutPipe()
	if err != nil || server.Start() != nil {
		return false
	}
	w.server, w.input = server, input
	line, err := bufio.NewReader(output).ReadString('\n')
	return err == nil && line == "ready\n"
}

// Stop ends the server and the commands that it runs. Later commands run the real program.
func (w *Warm) Stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tried = true
	w.stop()
}

func (w *Warm) stop() {
	if w.server == nil {
		return
	}
	w.input.Close()
	_ = w.server.Wait() // it was asked to end, or has ended with an error of aws
	w.server = nil
}

// Serves reports whether a process is the server or a fork of it, by its command line.
func (w *Warm) Serves(commandLine []byte) bool {
	return strings.HasSuffix(string(commandLine), "\x00warm\x00"+w.Dir+"\x00")
}
