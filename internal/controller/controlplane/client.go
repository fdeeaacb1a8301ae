package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"github.com/coracle-eks/coracle/internal/hostmemory"
	"github.com/coracle-eks/coracle/internal/kube/client"
	"github.com/coracle-eks/coracle/internal/process"
	"github.com/coracle-eks/coracle/internal/record"
)

// poll is the interval at which something that sends no notifications is polled, if only one is polled.
const poll = 5 * time.Millisecond

// Config returns the configuration with which a user, one of EKS's own such as eks:node-manager, reaches the cluster's
// API server, with a certificate that is valid for a year from now. It is for the managed service's other controllers,
// which are clients like any other.
func (c *Controller) Config(ctx context.Context, cluster record.Cluster, user string, groups ...string) (
	*rest.Config, error) {
	seen, err := c.planes.Get(ctx, cluster.Key())
	if err != nil {
		return nil, err
	}
	port, err := recordedPort(seen.Value)
	if err != nil {
		return nil, err
	}
	if port == 0 {
		return nil, fmt.Errorf("cluster %s has no endpoint yet", cluster.Name)
	}
	secrets, err := c.secrets.Get(ctx, cluster.Key())
	if err != nil {
		return nil, err
	}
	k, err := parseSecrets(secrets.Value)
	if err != nil {
		return nil, err
	}
	return c.restConfig(k, localURL(port), user, groups...)
}

func (c *Controller) restConfig(k keys, endpoint, user string, groups ...string) (*rest.Config, error) {
	pair, err := k.ca.IssueAt(clientLeaf(user, groups...), c.clock.Now())
	if err != nil {
		return nil, err
	}
	return &rest.Config{
		Host:            endpoint,
		TLSClientConfig: rest.TLSClientConfig{CAData: k.trusted.bundle(), CertData: pair.Certificate, KeyData: pair.Key},
		QPS:             -1, // API priority and fairness decides, not the client
	}, nil
}

// bootstrapClient makes clients of eks:cluster-bootstrap, with the powers of system:masters.
func (c *Controller) bootstrapClient(p plane) (*client.Client, error) {
	config, err := c.restConfig(p.keys, p.serverURL(), userBootstrap, "system:masters")
	if err != nil {
		return nil, err
	}
	// EKS uses kubectl of the cluster's version.
	return client.New(config, p.cluster.Name, "kubectl/v"+p.minor+".0 (linux/amd64) kubernetes")
}

// getHealth asks for the health of a component, at whichever port, and fails unless the answer is 200.
func getHealth(ctx context.Context, connections *http.Client, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := connections.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return body, fmt.Errorf("%s answers %s: %s", request.URL.Path, response.Status, firstLine(body))
	}
	return body, nil
}

func firstLine(b []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(b)), "\n")
	return line
}

// waitForAnswer calls ask until it succeeds. It gives up at the timeout, or before when the process
// whose name is given keeps dying.
func (c *Controller) waitForAnswer(ctx context.Context, name string, timeout time.Duration,
	ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, errTimeout)
	defer cancel()
	// The more there are to ask, the less often, or the answers would cost what the starts need.
	c.polls.Add(1)
	defer c.polls.Add(-1)
	timer := time.NewTimer(poll)
	defer timer.Stop()
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		if died := c.diedOften(name); died != nil {
			return died
		}
		timer.Reset(poll * time.Duration(c.polls.Load()))
		select {
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), errTimeout) {
				return fmt.Errorf("%s is not healthy after %v: %w", componentOf(name), timeout, err)
			}
			return context.Cause(ctx)
		case <-timer.C:
		}
	}
}

var errTimeout = errors.New("took too long")

// tooOften is the number of consecutive deaths after which a component counts as broken.
const tooOften = 4

// diedOften returns an error if the process keeps dying, with the last words of its log.
func (c *Controller) diedOften(name string) error {
	for _, s := range c.o.Host.List(name) {
		if s.Name == name && s.Deaths >= tooOften {
			return c.crashError(s)
		}
	}
	return nil
}

func (c *Controller) crashError(s process.Status) error {
	component := componentOf(s.Name)
	log := c.clusterDir(clusterOf(s.Name), "log", component+".log")
	last := record.Reason(lastError(log)) // components quote what users write
	if strings.HasPrefix(last, fatal) && strings.Contains(last, "memory") {
		last += fmt.Sprintf(
			" (it needs more than its bound of %d MiB: the cluster has too many or too large objects, or an APIService "+
				"of the cluster answers with too much)", memoryLimit(component, hostmemory.Total())>>20)
	}
	return fmt.Errorf("%s has died %d times in a row (%s); the last line of %s: %s", component, s.Deaths, s.LastExit,
		log, last)
}

// fatal is the beginning of the last words of a Go program, before its stacks.
const fatal = "fatal error: "

var klogLine = regexp.MustCompile(`^[IWEF]\d{4} `)

// lastError returns the last line of a log that says more than that the program ended.
func lastError(name string) string {
	f, err := os.Open(name)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	const end = 1 << 20 // the stacks of all goroutines follow the words with which Go ends
	if info, err := f.Stat(); err == nil && info.Size() > end {
		if _, err := f.Seek(-end, io.SeekEnd); err != nil {
			return err.Error()
		}
	}
	b, err := io.ReadAll(f)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	logged := false // by klog
	for i := len(lines) - 1; i >= 0; i-- {
		l := strings.TrimSpace(lines[i])
		logged = logged || klogLine.MatchString(l)
		if strings.HasPrefix(l, fatal) && !logged {
			return l
		}
		if strings.HasPrefix(l, "E") || strings.HasPrefix(l, "F") || strings.HasPrefix(l, "Error") ||
			strings.HasPrefix(l, "panic") {
			return l
		}
	}
	return strings.TrimSpace(lines[len(lines)-1])
}
