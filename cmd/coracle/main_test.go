package main

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/coracle-eks/coracle/internal/datadir"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/freeport"
	"github.com/coracle-eks/coracle/internal/process"
	"github.com/coracle-eks/coracle/internal/reset"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"coracle": main})
}

// TestScripts runs testdata/*.txtar. Each has a data directory, a port and a home of its own.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Condition: func(name string) (bool, error) {
			if name != "root" {
				return false, fmt.Errorf("unknown condition %s", name)
			}
			return os.Geteuid() == 0, nil
		},
		Setup: func(env *testscript.Env) error {
			p, err := freeport.Find()
			if err != nil {
				return err
			}
			data := filepath.Join(env.WorkDir, "data")
			env.Setenv("CORACLE_DATA_DIR", data)
			env.Setenv("CORACLE_LISTEN", "127.0.0.1:"+strconv.Itoa(p))
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("PATH", env.Getenv("PATH"))
			env.Defer(func() { sweep(t, env.WorkDir) })
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"get":       get,
			"crash":     crashDaemon,
			"processes": processes,
			"mode":      mode,
			"redeem":    redeem,
		},
	})
}

// sweep resets every data directory below a script's directory, whatever state it left it in.
func sweep(t *testing.T, work string) {
	// A script that failed half-way may have left its file system mounted.
	if err := syscall.Unmount(filepath.Join(work, "small"), 0); err == nil {
		t.Logf("unmounted %s", filepath.Join(work, "small"))
	}
	entries, err := os.ReadDir(work)
	if err != nil {
		t.Error(err)
	}
	for _, e := range entries {
		dir, err := datadir.At(filepath.Join(work, e.Name()))
		if err != nil {
			t.Error(err)
			continue
		}
		if _, err := os.Stat(dir.LockFile()); err != nil {
			continue
		}
		if err := reset.Run(t.Context(), dir, func(string) {}); err != nil {
			t.Errorf("reset %s: %v", dir, err)
		}
	}
}

// get URL STATUS asks until the answer has that status; "! get URL" wants that nobody answers.
func get(ts *testscript.TestScript, neg bool, args []string) {
	url := "http://" + ts.Getenv("CORACLE_LISTEN") + args[0]
	if neg {
		if resp, err := http.Get(url); err == nil {
			resp.Body.Close()
			ts.Fatalf("GET %s: %s", url, resp.Status)
		}
		return
	}
	ts.Check(eventually.Try(10*time.Millisecond, func() error {
		resp, err := http.Get(url)
		if err != nil {
			return err
		}
		resp.Body.Close()
		if strconv.Itoa(resp.StatusCode) != args[1] {
			return fmt.Errorf("GET %s: %s, want %s", url, resp.Status, args[1])
		}
		return nil
	}))
}

// redeem FILE, in scripts, signs in to the console by the link in a page, as a browser does once it has opened it.
func redeem(ts *testscript.TestScript, _ bool, args []string) {
	var code string
	ts.Check(eventually.Try(10*time.Millisecond, func() error {
		page, err := os.ReadFile(ts.MkAbs(args[0]))
		if err != nil {
			return err
		}
		_, code, _ = strings.Cut(string(page), "#code=")
		code, _, _ = strings.Cut(code, `"`)
		return nil
	}))
	origin := "http://" + ts.Getenv("CORACLE_LISTEN")
	r, err := http.NewRequest(http.MethodPost, origin+"/console/session", strings.NewReader(`{"code":"`+code+`"}`))
	ts.Check(err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Origin", origin)
	resp, err := http.DefaultClient.Do(r)
	ts.Check(err)
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		ts.Fatalf("sign in: %s", resp.Status)
	}
}

// crashDaemon DIR, "crash" in scripts, SIGKILLs the daemon of a data directory and waits until it is gone.
func crashDaemon(ts *testscript.TestScript, neg bool, args []string) {
	dir, err := datadir.At(ts.MkAbs(args[0]))
	ts.Check(err)
	pid, held, err := dir.Holder()
	ts.Check(err)
	if !held {
		ts.Fatalf("no daemon holds %s", dir)
	}
	ts.Check(syscall.Kill(pid, syscall.SIGKILL))
	ts.Check(eventually.Try(10*time.Millisecond, func() error {
		_, held, err := dir.Holder()
		if err == nil && held {
			err = fmt.Errorf("process %d survives", pid)
		}
		return err
	}))
}

// processes DIR N wants N processes that bear the mark of a data directory, or name it.
func processes(ts *testscript.TestScript, neg bool, args []string) {
	dir, err := datadir.At(ts.MkAbs(args[0]))
	ts.Check(err)
	want, err := strconv.Atoi(args[1])
	ts.Check(err)
	// A controller starts the endpoint process once the daemon serves.
	ts.Check(eventually.Try(10*time.Millisecond, func() error {
		found, err := process.Claims(dir.Owner())
		if err == nil && len(found) != want {
			err = fmt.Errorf("%d processes of %s: %+v, want %d", len(found), dir, found, want)
		}
		return err
	}))
	if want > 0 {
		return
	}
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	ts.Check(err)
	for _, file := range lines {
		if line, err := os.ReadFile(file); err == nil && bytes.Contains(line, []byte(string(dir)+"\x00")) {
			ts.Fatalf("%s: %q still runs", file, line)
		}
	}
}

// mode FILE 0600 wants the permissions of a file.
func mode(ts *testscript.TestScript, neg bool, args []string) {
	info, err := os.Stat(ts.MkAbs(args[0]))
	ts.Check(err)
	want, err := strconv.ParseUint(args[1], 8, 32)
	ts.Check(err)
	if info.Mode().Perm() != os.FileMode(want) {
		ts.Fatalf("%s has mode %04o, want %s", args[0], info.Mode().Perm(), args[1])
	}
}
