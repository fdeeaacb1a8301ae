//go:build linux

// Package nodes tests what turns a control plane into a cluster: EC2 instances that boot, join and run pods with
// addresses of the VPC, as their users see them with the unmodified aws and kubectl. The tests need root.
package nodes

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/test/harness/clustertest"
)

// cluster is a fixture, and what these tests do there.
type cluster struct {
	*clustertest.Fixture
	t testing.TB
}

func newCluster(t testing.TB, name, version string, extraEnv ...string) *cluster {
	t.Helper()
	return &cluster{clustertest.New(t, name, version, extraEnv...), t}
}

var errStillThere = errors.New("it is still there")

// kibibytes reads a quantity such as "7934144Ki".
func kibibytes(t testing.TB, quantity string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(strings.TrimSuffix(quantity, "Ki"), 10, 64)
	if err != nil {
		t.Fatalf("memory is %q: %v", quantity, err)
	}
	return n
}
