package warmpool

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coracle-eks/coracle/internal/guest/imds"
	"github.com/coracle-eks/coracle/internal/guest/imds/imdstest"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	const path = "meta-data/autoscaling/target-lifecycle-state"
	for name, c := range map[string]struct {
		metadata map[string]string
		status   int
		says     string
	}{
		"of no group":             {nil, 0, ""},
		"going into service":      {map[string]string{path: "InService"}, 0, ""},
		"stopped in the pool":     {map[string]string{path: "Warmed:Stopped"}, 1, "warm pool"},
		"running in the pool":     {map[string]string{path: "Warmed:Running"}, 1, "warm pool"},
		"leaving the whole of it": {map[string]string{path: "Terminated"}, 0, ""},
	} {
		var said bytes.Buffer
		var asked []string
		command := Command{IMDS: imdstest.Fake(t, c.metadata), Stderr: &said,
			Systemctl: func(args []string) int { asked = append(asked, args...); return 0 }}
		if status := command.Run(t.Context(), []string{"check"}); status != c.status ||
			!strings.Contains(said.String(), c.says) {
			t.Errorf("%s: status %d, says %q", name, status, &said)
		}
		if waits := strings.Join(asked, " ") == "start --no-block "+Waiter; waits != (c.status == 1) {
			t.Errorf("%s: systemctl %v", name, asked)
		}
	}
	command := Command{IMDS: imdstest.Fake(t, map[string]string{path: "Warmed:Running"}), Stderr: &bytes.Buffer{},
		Systemctl: func([]string) int { return 1 }}
	if status := command.Run(t.Context(), []string{"check"}); status != 255 {
		t.Errorf("without a waiter the condition ends with %d", status)
	}
	// Metadata that does not answer keeps no node from being one.
	away := Command{IMDS: &imds.Client{Endpoint: "http://127.0.0.1:1"}, Stderr: &bytes.Buffer{}}
	if status := away.Run(t.Context(), []string{"check"}); status != 0 {
		t.Errorf("without metadata the condition ends with %d", status)
	}
	for _, args := range [][]string{nil, {"what"}, {"check", "it"}} {
		if status := away.Run(t.Context(), args); status != 2 {
			t.Errorf("%q: status %d", args, status)
		}
	}
}

// The kubelet starts once, when the instance goes into service, and not because the metadata was away for a moment.
func TestWait(t *testing.T) {
	t.Parallel()
	answers := []string{"Warmed:Running", "", "Warmed:Running", "InService"}
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			fmt.Fprint(w, "token")
			return
		}
		answer := answers[asked]
		asked++
		if answer == "" {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, answer)
	}))
	t.Cleanup(server.Close)
	started := 0
	c := Command{IMDS: &imds.Client{Endpoint: server.URL}, Stderr: &bytes.Buffer{}, Interval: time.Millisecond,
		Systemctl: func(args []string) int {
			if asked != len(answers) || strings.Join(args, " ") != "start --no-block kubelet.service" {
				t.Errorf("systemctl %v after %d answers", args, asked)
			}
			started++
			return 0
		}}
	if status := c.Run(t.Context(), []string{"wait"}); status != 0 || started != 1 {
		t.Errorf("status %d, started %d times", status, started)
	}
	asked = 0
	ended, end := context.WithCancel(t.Context())
	end()
	if status := c.Run(ended, []string{"wait"}); status != 1 || started != 1 {
		t.Errorf("ended: status %d, started %d times", status, started)
	}
}
