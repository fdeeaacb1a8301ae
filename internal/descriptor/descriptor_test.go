package descriptor

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

const role = "CORACLE_DESCRIPTOR_TEST"

// TestMain runs the tests, or the program that inherits a directory and becomes another.
func TestMain(m *testing.M) {
	if os.Getenv(role) == "" {
		os.Exit(m.Run())
	}
	if os.Getenv(role) == "closes" {
		if err := CloseOnExec(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	err := syscall.Exec("/bin/ls", []string{"ls", "/proc/self/fd/9/"}, os.Environ())
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func TestInheritedDescriptorsEndWithTheProgram(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/secret", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, leaks := range map[string]bool{"keeps": true, "closes": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inherited, err := os.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer inherited.Close()
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), role+"="+name)
			cmd.ExtraFiles = make([]*os.File, 7) // descriptors 3 to 9
			cmd.ExtraFiles[6] = inherited
			out, err := cmd.CombinedOutput()
			if leaked := strings.Contains(string(out), "secret"); leaked != leaks {
				t.Errorf("the program sees %q (%v)", out, err)
			}
		})
	}
	if _, err := unix.FcntlInt(0, unix.F_GETFD, 0); err != nil {
		t.Errorf("the standard input: %v", err)
	}
}
