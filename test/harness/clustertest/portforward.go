package clustertest

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os/exec"
	"strings"

	"github.com/coracle-eks/coracle/internal/eventually"
)

// PortForward reaches a port of a pod through kubectl port-forward: that of agnhost netexec.
func (s *Fixture) PortForward(namespace, what, port string) {
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
