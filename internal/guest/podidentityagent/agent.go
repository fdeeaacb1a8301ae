//go:build linux

// Package podidentityagent is the program of the add-on eks-pod-identity-agent: it runs on every node, and gives pods
// the credentials of the IAM role that a pod identity association gives their service account. It gets them from EKS
// Auth with the credentials of the node.
//
// Upstream's program is not published as a Go module. This one keeps its contract: arguments, addresses, ports, paths,
// answers and errors (https://github.com/aws/eks-pod-identity-agent). It differs in three ways: on a node without IPv6
// it serves IPv4 alone instead of ending; on a kernel without dummy links the address is on a bridge; and it limits the
// requests that have to be passed on to EKS Auth, not those that it answers from memory.
package podidentityagent

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials/ec2rolecreds"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/aws/aws-sdk-go-v2/service/eksauth"
	"golang.org/x/sync/errgroup"
)

// IPv4 and IPv6 are the addresses on which the agent of a node serves its pods.
const (
	IPv4 = "169.254.170.23"
	IPv6 = "fd00:ec2::23"
)

const usage = `usage: eks-pod-identity-agent initialize|server|version [FLAG...]
  initialize  give the node the addresses 169.254.170.23 and fd00:ec2::23
  server      serve pods their credentials
`

// Main runs a command of the program and returns the exit status.
func Main(args []string) int {
	if len(args) == 0 {
		fmt.Fprint(os.Stderr, usage)
		return 2
	}
	flags := flag.NewFlagSet("eks-pod-identity-agent "+args[0], flag.ContinueOnError)
	level := slog.LevelInfo
	verbosity := func(text string) error {
		switch text {
		case "trace", "debug":
			level = slog.LevelDebug
		case "info":
			level = slog.LevelInfo
		case "error", "panic":
			level = slog.LevelError
		default:
			return fmt.Errorf("%q is not panic, error, info or trace", text)
		}
		return nil
	}
	flags.Func("v", "the same as --verbosity", verbosity)
	flags.Func("verbosity", "panic, error, info or trace (default info)", verbosity)
	run := initialize
	switch args[0] {
	case "initialize":
	case "server":
		run = serverFlags(flags)
	case "version":
		run = func(context.Context, *slog.Logger) error {
			fmt.Println("EKS Pod Identity Agent of Coracle")
			return nil
		}
	default:
		fmt.Fprint(os.Stderr, usage)
		return 2
	}
	if err := flags.Parse(args[1:]); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, log); err != nil {
		log.Error("the agent ends", "error", err)
		return 1
	}
	return 0
}

// options are what the arguments of the server say.
type options struct {
	cluster, endpoint, metricsAddress string
	port, probePort, metricsPort      uint
	hosts                             []string
	renewal                           time.Duration
	size, rate                        int
}

// serverFlags declares the flags of the server and returns what runs it.
func serverFlags(flags *flag.FlagSet) func(context.Context, *slog.Logger) error {
	o := options{}
	flags.StringVar(&o.cluster, "cluster-name", "", "name of the EKS cluster (required)")
	flags.StringVar(&o.cluster, "c", "", "the same as --cluster-name")
	flags.UintVar(&o.port, "port", 80, "port on which pods are served")
	flags.UintVar(&o.port, "p", 80, "the same as --port")
	flags.UintVar(&o.probePort, "probe-port", 2703, "port of health and readiness")
	flags.StringVar(&o.metricsAddress, "metrics-address", "0.0.0.0", "address on which metrics are served")
	flags.UintVar(&o.metricsPort, "metrics-port", 2705, "port of metrics")
	flags.DurationVar(&o.renewal, "max-credential-retention-before-renewal", 3*time.Hour,
		"longest time before credentials are renewed; 0 keeps none")
	flags.IntVar(&o.size, "max-cache-size", 2000, "number of credentials that are kept; 0 keeps none")
	flags.IntVar(&o.rate, "max-service-qps", 3, "renewals per second")
	flags.StringVar(&o.endpoint, "endpoint", "", "URL of EKS Auth, instead of that of the region")
	host := func(value string) error { o.hosts = append(o.hosts, strings.Trim(value, "[]")); return nil }
	flags.Func("bind-hosts", "address on which pods are served; may be repeated (default 169.254.170.23 and fd00:ec2::23)",
		host)
	flags.Func("b", "the same as --bind-hosts", host)
	return func(ctx context.Context, log *slog.Logger) error {
		if o.cluster == "" {
			return errors.New("--cluster-name is required")
		}
		return o.serve(ctx, log)
	}
}

// serve serves until the context ends.
func (o options) serve(ctx context.Context, log *slog.Logger) error {
	auth, err := o.client(ctx)
	if err != nil {
		return err
	}
	listeners, hosts, err := o.listen(log)
	if err != nil {
		return err
	}
	m := newMetrics()
	agent := newAgent(agentOptions{cluster: o.cluster, auth: auth, log: log, renewal: o.renewal, size: o.size,
		renewals: o.rate, metrics: m})
	probes := newProbes(hosts, o.port)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return agent.renewUntilDone(ctx) })
	for _, l := range listeners {
		group.Go(func() error { return serveHTTP(ctx, l, agent) })
	}
	for address, handler := range map[string]http.Handler{
		net.JoinHostPort("localhost", fmt.Sprint(o.probePort)):        probes,
		net.JoinHostPort(o.metricsAddress, fmt.Sprint(o.metricsPort)): m.handler(probes),
	} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			return err
		}
		group.Go(func() error { return serveHTTP(ctx, l, handler) })
	}
	log.Info("serving the credentials of pods", "cluster", o.cluster, "hosts", hosts)
	return group.Wait()
}

// client returns a client of EKS Auth that signs with the credentials of the node.
func (o options) client(ctx context.Context) (*eksauth.Client, error) {
	metadata := imds.New(imds.Options{})
	region := os.Getenv("AWS_REGION")
	if region == "" {
		out, err := metadata.GetRegion(ctx, &imds.GetRegionInput{})
		if err != nil {
			return nil, fmt.Errorf("AWS_REGION is not set, and the instance metadata do not say it: %w", err)
		}
		region = out.Region
	}
	config := aws.Config{
		Region:      region,
		Credentials: aws.NewCredentialsCache(ec2rolecreds.New(func(r *ec2rolecreds.Options) { r.Client = metadata })),
		HTTPClient: &http.Client{Timeout: time.Second, Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: 500 * time.Millisecond}).DialContext,
			ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 8, IdleConnTimeout: time.Minute,
		}},
	}
	return eksauth.NewFromConfig(config, func(e *eksauth.Options) {
		if o.endpoint != "" {
			e.BaseEndpoint = &o.endpoint
		}
	}), nil
}

// listen opens the sockets for pods, and returns the hosts that it could. Without --bind-hosts, IPv6 is optional.
func (o options) listen(log *slog.Logger) (all []net.Listener, hosts []string, err error) {
	wanted, optional := o.hosts, ""
	if len(wanted) == 0 {
		wanted, optional = []string{IPv4, IPv6}, IPv6
	}
	for _, host := range wanted {
		l, err := net.Listen("tcp", net.JoinHostPort(host, fmt.Sprint(o.port)))
		if err != nil && host == optional {
			log.Info("pods are not served by IPv6", "error", err)
			continue
		} else if err != nil {
			return nil, nil, err
		}
		all, hosts = append(all, l), append(hosts, host)
	}
	return all, hosts, nil
}

const (
	requestTime  = 30 * time.Second
	shutdownTime = 5 * time.Second
)

// serveHTTP serves a listener until the context ends.
func serveHTTP(ctx context.Context, l net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadTimeout: requestTime, WriteTimeout: requestTime,
		IdleTimeout: 2 * requestTime, MaxHeaderBytes: 64 << 10, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	shutdown, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
	defer cancel()
	if server.Shutdown(shutdown) != nil {
		server.Close()
	}
	return nil
}

// GoRunner is the program go-runner of Kubernetes's images, by which the add-on starts the agent: it becomes the
// program that its arguments name.
func GoRunner(args []string, stderr io.Writer) int {
	if len(args) == 0 {
		fmt.Fprintln(stderr, "usage: go-runner PROGRAM [ARGUMENT...]")
		return 2
	}
	err := syscall.Exec(args[0], args, os.Environ())
	fmt.Fprintf(stderr, "go-runner: %s: %v\n", args[0], err)
	return 1
}
