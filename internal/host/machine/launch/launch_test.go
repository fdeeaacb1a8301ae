//go:build linux

package launch

import (
	"os"
	"strconv"
	"testing"

	"github.com/coracle-eks/coracle/internal/host/machine/machinetest"
)

func TestMain(m *testing.M) {
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
