//go:build linux

package launch

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/host/machine/machinetest"
)

// mountAs makes the test program call mount(2) as a user, with flags, a source and a target.
const mountAs = "mount-as"

// setAttribute makes the test program set an extended attribute of a file.
const setAttribute = "set-attribute"

func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == setAttribute {
		if err := unix.Setxattr(os.Args[3], os.Args[2], []byte("value"), 0); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) == 6 && os.Args[1] == mountAs {
		err := unix.Setuid(atoi(os.Args[2]))
		if err == nil {
			err = unix.Mount(os.Args[4], os.Args[5], "ext4", uintptr(atoi(os.Args[3])), "")
		}
		fmt.Printf("%s as %s: %v\n", os.Args[5], os.Args[2], err)
		return
	}
	if len(os.Args) > 1 && os.Args[1] == "launch" {
		os.Exit(Main(os.Args[2:]))
	}
	machinetest.Main()
	os.Exit(m.Run())
}

func itoa(n int) string { return strconv.Itoa(n) }

func atoi(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}
