//go:build linux

// Package nodes tests what turns a control plane into a cluster: EC2 instances that boot, join and run pods with
// addresses of the VPC, as their users see them with the unmodified aws and kubectl. The tests need root.
package nodes

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/internal/eventually"
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

// portForward reaches a port of a pod through kubectl port-forward.
func (s *cluster) portForward(namespace, what, port string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), eventually.Limit)
	defer cancel()
	cmd := s.Command(ctx, s.Config, "kubectl", "port-forward", "-n", namespace, what, ":"+port)
	out, err := cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	defer end(cmd)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		s.t.Fatalf("kubectl port-forward: %q, %v", line, err)
	}
	// Forwarding from 127.0.0.1:41234 -> 80
	address := strings.Fields(strings.TrimPrefix(line, "Forwarding from "))[0]
	response, err := http.Get("http://" + address + "/hostname")
	if err != nil {
		s.t.Errorf("through kubectl port-forward: %v", err)
		return
	}
	defer response.Body.Close()
	if text, err := io.ReadAll(response.Body); err != nil || response.StatusCode != http.StatusOK {
		s.t.Errorf("through kubectl port-forward: %s %s %v", response.Status, text, err)
	}
}

func end(cmd *exec.Cmd) {
	_ = cmd.Process.Kill() // it may have ended by itself
	_ = cmd.Wait()         // a killed command's status says nothing
}
