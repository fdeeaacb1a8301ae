//go:build linux

package ebscsi

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"

	"github.com/coracle-eks/coracle/internal/guest/csidriver"
	"github.com/coracle-eks/coracle/internal/guest/imds"
)

// DriverName is the name of the driver.
const DriverName = "ebs.csi.aws.com"

const usage = `usage: aws-ebs-csi-driver [controller|node|all|pre-stop-hook|version] [FLAG...]
  controller     create, attach, modify and snapshot volumes
  node           format and mount the volumes of this node
  all            both (the default)
  pre-stop-hook  on a node that is drained, wait until it has no volumes
`

// options are what the arguments of the driver say.
type options struct {
	endpoint, userAgent, clusterID, format string
	verbosity                              int
	tags                                   map[string]string
	warnTags                               bool
	limit                                  int64
	reserved                               int
	legacyXFS                              bool
}

// flags declares the flags.
func (o *options) flags(name string) *flag.FlagSet {
	f := flag.NewFlagSet(name, flag.ContinueOnError)
	f.StringVar(&o.endpoint, "endpoint", "unix:///tmp/csi.sock", "address of the socket")
	f.StringVar(&o.userAgent, "user-agent-extra", "", "appended to the user agent of calls")
	f.StringVar(&o.clusterID, "k8s-tag-cluster-id", "", "name of the cluster, for tags of volumes")
	f.StringVar(&o.format, "logging-format", "text", "text or json")
	f.IntVar(&o.verbosity, "v", 2, "verbosity of the log, 0 to 10: requests from 4 on")
	f.BoolVar(&o.warnTags, "warn-on-invalid-tag", false, "leave out tags that are not allowed, instead of failing")
	f.Int64Var(&o.limit, "volume-attach-limit", -1, "volumes that a node may have; -1: by its instance type")
	f.IntVar(&o.reserved, "reserved-volume-attachments", -1, "volumes that others attach; -1: as many as there are")
	f.BoolVar(&o.legacyXFS, "legacy-xfs", false, "format XFS for kernels up to 5.4")
	tags := func(value string) error {
		for _, pair := range strings.FieldsFunc(value, func(r rune) bool { return r == ',' }) {
			key, tag, ok := strings.Cut(pair, "=")
			if !ok {
				return fmt.Errorf("%q is not KEY=VALUE", pair)
			}
			if o.tags == nil {
				o.tags = make(map[string]string)
			}
			o.tags[key] = tag
		}
		return nil
	}
	f.Func("extra-tags", "tags for all volumes and snapshots, KEY=VALUE,...", tags)
	f.Func("extra-volume-tags", "the same as --extra-tags", tags)
	// Each call is made for itself, and paths need no prefix to be known.
	f.Bool("batching", false, "accepted for upstream's sake: calls are not gathered")
	f.Bool("aws-sdk-debug-log", false, "log the calls of AWS")
	f.String("csi-mount-point-prefix", "", "accepted for upstream's sake: it is for metrics")
	return f
}

// Main runs the program "aws-ebs-csi-driver" and returns the exit status.
func Main(args []string) int {
	mode := "all"
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		mode, args = args[0], args[1:]
	}
	var o options
	flags := o.flags("aws-ebs-csi-driver " + mode)
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2
	}
	log := csidriver.NewLogger(o.verbosity, o.format == "json")
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	var err error
	switch mode {
	case "controller", "node", "all":
		err = o.serve(ctx, log, mode, flags.Lookup("aws-sdk-debug-log").Value.String() == "true")
	case "pre-stop-hook":
		err = preStop(ctx, log)
	case "version":
		fmt.Println("EBS CSI driver of Coracle")
	default:
		fmt.Fprint(os.Stderr, usage)
		return 2
	}
	if err != nil {
		log.Error("the driver ends", "error", err)
		return 1
	}
	return 0
}

// serve serves the CSI until the context ends.
func (o *options) serve(ctx context.Context, log *slog.Logger, mode string, debug bool) error {
	if err := checkTags(o.tags); err != nil {
		return fmt.Errorf("--extra-tags: %w", err)
	}
	var c *controller
	var n *node
	if mode != "node" {
		api, err := o.client(ctx, debug)
		if err != nil {
			return err
		}
		c = newController(api, *o)
	}
	if mode != "controller" {
		who, err := csidriver.FindNode(ctx, log, &imds.Client{}, os.Getenv("CSI_NODE_NAME"))
		if err != nil {
			return err
		}
		n = &node{options: *o, identity: who, mounter: systemMounter{csidriver.NewMounter()}}
		go csidriver.Taint{Driver: DriverName, Ready: isRegistered}.Remove(ctx, log, os.Getenv("CSI_NODE_NAME"))
	}
	return csidriver.Serve(ctx, log, o.endpoint, func(s *grpc.Server) {
		who := &csidriver.Identity{Driver: DriverName}
		csi.RegisterIdentityServer(s, who)
		if c != nil {
			who.Check = c.check
			csi.RegisterControllerServer(s, c)
		}
		if n != nil {
			csi.RegisterNodeServer(s, n)
		}
	})
}

// client returns a client of EC2 with the credentials of the pod: those of its service account's role, or the node's.
func (o *options) client(ctx context.Context, debug bool) (*ec2.Client, error) {
	var load []func(*config.LoadOptions) error
	if debug {
		load = append(load, config.WithClientLogMode(aws.LogRequest|aws.LogRetries|aws.LogResponse))
	}
	agent := "aws-ebs-csi-driver"
	if o.userAgent != "" {
		agent += "-" + o.userAgent
	}
	c, err := csidriver.LoadConfig(ctx, agent, load...)
	if err != nil {
		return nil, err
	}
	return ec2.NewFromConfig(c, func(e *ec2.Options) {
		if endpoint := os.Getenv("AWS_EC2_ENDPOINT"); endpoint != "" {
			e.BaseEndpoint = &endpoint
		}
	}), nil
}
