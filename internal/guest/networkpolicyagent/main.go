//go:build linux

package networkpolicyagent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/pflag"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/coracle-eks/coracle/internal/guest/imds"
	kubeclient "github.com/coracle-eks/coracle/internal/kube/client"
)

// Where the VPC CNI plugin and the agent find each other.
const (
	runDir       = "/var/run/aws-node/"
	pluginSocket = runDir + "ipamd.sock"
	agentSocket  = runDir + "npa.sock"
	podsFile     = runDir + "network-policy-pods.json"
)

// options are the arguments, with upstream's names and defaults.
type options struct {
	enabled, six, logFlows      bool
	cloudWatch                  bool
	logLevel, logFile           string
	metrics, health             string
	logMaxSize, logMaxBackups   int
	conntrackPeriod, conntracks int
}

// The bounds of --conntrack-cache-table-size.
const (
	minConntracks = 32 << 10
	maxConntracks = 1 << 20
)

func parseOptions(args []string) (o options, err error) {
	flags := pflag.NewFlagSet("aws-network-policy-agent", pflag.ContinueOnError)
	flags.BoolVar(&o.enabled, "enable-network-policy", false, "enforce network policies")
	flags.BoolVar(&o.six, "enable-ipv6", false, "pods have IPv6 addresses")
	flags.BoolVar(&o.logFlows, "enable-policy-event-logs", false, "log what policies allow and deny")
	flags.StringVar(&o.logLevel, "log-level", "debug", "debug, info, warn or error")
	flags.StringVar(&o.logFile, "log-file", "", `file of the log; "stdout", or standard error when empty`)
	flags.IntVar(&o.logMaxSize, "log-file-max-size", 200, "size in MiB at which the file of the log is rotated")
	flags.IntVar(&o.logMaxBackups, "log-file-max-backups", 8, "number of rotated files that are kept")
	flags.StringVar(&o.metrics, "metrics-bind-addr", ":8162", "address of metrics")
	flags.StringVar(&o.health, "health-probe-bind-addr", ":8163", "address of health and readiness")
	flags.IntVar(&o.conntrackPeriod, "conntrack-cache-cleanup-period", 300,
		"without effect: the kernel ends its entries itself")
	flags.IntVar(&o.conntracks, "conntrack-cache-table-size", 512<<10,
		"without effect: the kernel has one table for all")
	flags.BoolVar(&o.cloudWatch, "enable-cloudwatch-logs", false,
		"send what is logged by --enable-policy-event-logs to CloudWatch Logs")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.conntracks < minConntracks || o.conntracks > maxConntracks {
		return o, fmt.Errorf("--conntrack-cache-table-size: %d is not between %d and %d", o.conntracks, minConntracks,
			maxConntracks)
	}
	return o, nil
}

// Main runs the agent and returns the exit status.
func Main(args []string) int {
	o, err := parseOptions(args)
	if errors.Is(err, pflag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	log := newLogger(o.logLevel, newWriter(o.logFile, o.logMaxSize, o.logMaxBackups))
	defer log.Sync() //nolint:errcheck // it is the end
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	log.Infof("Starting network policy agent of Coracle, log level: %s", o.logLevel)
	if err := o.run(ctx, log); err != nil && ctx.Err() == nil {
		log.Errorf("The agent ends: %v", err)
		return 1
	}
	return 0
}

// run enforces until ctx ends.
func (o options) run(ctx context.Context, log *zap.SugaredLogger) error {
	group, ctx := errgroup.WithContext(ctx)
	b := &backend{log: log}
	if o.enabled {
		log.Info("Network Policy is enabled, registering controllers...")
		s := newState(log, &kernel{flows: flowGroup}, podsFile)
		s.logFlows = o.logFlows
		if err := s.load(); err != nil {
			return err
		}
		objects, err := connectCluster()
		if err != nil {
			return fmt.Errorf("connect to the cluster: %w", err)
		}
		b.state = s
		group.Go(func() error { return o.findNode(ctx, log, s) })
		group.Go(func() error { policyEndpoints(objects).follow(ctx, s); return nil })
		group.Go(func() error { clusterPolicyEndpoints(objects).follow(ctx, s); return nil })
		group.Go(func() error { s.run(ctx); return nil })
		if o.logFlows {
			l := flowLog{log: log}
			if o.cloudWatch {
				l.publisher = newPublisher(log)
				group.Go(func() error { l.publisher.run(ctx); return nil })
			}
			group.Go(func() error { return l.follow(ctx) })
		}
	} else {
		log.Info("Network Policy is disabled, skip the controller registration")
		// The plugin needs the agent also where nothing is enforced, and there is nothing to remove.
		if err := errors.Join((&kernel{}).remove(), os.RemoveAll(podsFile)); err != nil {
			log.Errorf("Failed to remove what an earlier agent has left: %v", err)
		}
	}
	group.Go(func() error { return b.serve(ctx, agentSocket) })
	health := http.NewServeMux()
	ok := func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") }
	health.HandleFunc("/healthz", ok)
	health.HandleFunc("/readyz", func(w http.ResponseWriter, r *http.Request) {
		if b.state != nil {
			select {
			case <-b.state.ready:
			default:
				http.Error(w, errUnknown.Error(), http.StatusInternalServerError)
				return
			}
		}
		ok(w, r)
	})
	metrics := http.NewServeMux()
	metrics.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	for address, handler := range map[string]http.Handler{o.health: health, o.metrics: metrics} {
		group.Go(func() error { return serveHTTP(ctx, address, handler) })
	}
	return group.Wait()
}

// findNode asks ipamd, until it answers, which address the node has.
func (o options) findNode(ctx context.Context, log *zap.SugaredLogger, s *state) error {
	log.Infof("Trying to establish GRPC connection to ipamd at %s", pluginSocket)
	backoff := kubeclient.Backoff{First: 100 * time.Millisecond, Most: 2 * time.Second}
	for {
		began := time.Now()
		node, err := o.askNode(ctx, log)
		if err == nil {
			s.setNode(node)
			return nil
		}
		log.Errorf("Failed to learn the address of the node: %v", err)
		if err := kubeclient.Sleep(ctx, backoff.After(time.Since(began))); err != nil {
			return err
		}
	}
}

const askTimeout = 5 * time.Second

func (o options) askNode(ctx context.Context, log *zap.SugaredLogger) (netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	c, err := askPlugin(ctx, pluginSocket, o.six)
	if err != nil {
		return netip.Addr{}, err
	}
	log.Infof("Connected to ipamd at %s. NetworkPolicyMode: %s", pluginSocket, c.mode)
	if c.node.IsValid() {
		return c.node, nil
	}
	path := "local-ipv4" // an older ipamd does not say it
	if o.six {
		path = "ipv6"
	}
	text, err := (&imds.Client{}).Meta(ctx, path)
	if err != nil {
		return netip.Addr{}, err
	}
	return netip.ParseAddr(text)
}

const requestTime = 30 * time.Second

// serveHTTP serves an address until ctx ends.
func serveHTTP(ctx context.Context, address string, handler http.Handler) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, ReadTimeout: requestTime, WriteTimeout: requestTime,
		MaxHeaderBytes: 64 << 10}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	return server.Serve(l)
}
