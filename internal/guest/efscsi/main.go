//go:build linux

package efscsi

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/service/efs"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"

	"github.com/coracle-eks/coracle/internal/guest/csidriver"
	"github.com/coracle-eks/coracle/internal/guest/imds"
)

// DriverName is the name of the driver.
const DriverName = "efs.csi.aws.com"

// options are what the arguments of the driver say.
type options struct {
	endpoint     string
	metrics      bool // how much is in volumes
	refresh      time.Duration
	measuring    int // volumes of a file system at the same time
	deleteRoot   bool
	mountDir     string // where the controller mounts file systems
	tags         map[string]string
	limitMounts  bool
	maxMounts    int64
	limitVolumes bool
	maxVolumes   int64
}

// flags declares the flags. Those about efs-utils, S3 Files and metrics are accepted for upstream's sake.
func (o *options) flags() *flag.FlagSet {
	o.mountDir = "/var/lib/csi/pv"
	f := flag.NewFlagSet("aws-efs-csi-driver", flag.ContinueOnError)
	f.StringVar(&o.endpoint, "endpoint", "unix:///tmp/csi.sock", "address of the socket")
	f.BoolVar(&o.deleteRoot, "delete-access-point-root-dir", false, "delete what an access point has, with it")
	f.Func("tags", "tags of access points, KEY:VALUE, with spaces between them", func(text string) error {
		var ignored []string
		if o.tags, ignored = parseTags(text); len(ignored) > 0 {
			fmt.Fprintf(os.Stderr, "--tags: %q are ignored: they are not KEY:VALUE\n", ignored)
		}
		return nil
	})
	f.BoolVar(&o.metrics, "vol-metrics-opt-in", false, "tell kubelet how much is in volumes")
	o.refresh = 240 * time.Minute
	f.Func("vol-metrics-refresh-period", "minutes after which that is measured again (240)", func(text string) error {
		minutes, err := time.ParseDuration(text + "m")
		o.refresh = minutes
		return err
	})
	f.IntVar(&o.measuring, "vol-metrics-fs-rate-limit", 5, "volumes of a file system that are measured at a time")
	f.BoolVar(&o.limitMounts, "max-inflight-mount-calls-opt-in", false, "limit the mounts at a time")
	f.Int64Var(&o.maxMounts, "max-inflight-mount-calls", -1, "the mounts at a time")
	f.BoolVar(&o.limitVolumes, "volume-attach-limit-opt-in", false, "limit the volumes of a node")
	f.Int64Var(&o.maxVolumes, "volume-attach-limit", -1, "the volumes of a node")
	for _, name := range []string{"adaptive-retry-mode", "alsologtostderr", "debug-logs", "efs-cloudwatch-log-enabled",
		"force-unmount-after-timeout", "logtostderr", "s3files-cloudwatch-log-enabled",
		"s3files-cloudwatch-metrics-enabled"} {
		f.Bool(name, false, "accepted for upstream's sake")
	}
	for _, name := range []string{"efs-utils-conf-overrides", "efs-utils-config-dir-path",
		"efs-utils-config-legacy-dir-path", "efs-utils-static-files-path", "http-endpoint", "metrics-cert-file",
		"metrics-key-file", "s3files-utils-conf-overrides", "stderrthreshold", "unmount-timeout"} {
		f.String(name, "", "accepted for upstream's sake")
	}
	return f
}

// parseTags reads tags, "KEY:VALUE KEY:VALUE", and returns also what is none. A backslash takes the meaning from what
// follows it.
func parseTags(text string) (tags map[string]string, ignored []string) {
	tags = make(map[string]string)
	for _, pair := range splitEscaped(strings.TrimSpace(text), ' ') {
		switch fields := splitEscaped(pair, ':'); len(fields) {
		case 1:
			if key := unescape(fields[0]); key != "" {
				tags[key] = ""
			}
		case 2:
			tags[unescape(fields[0])] = unescape(fields[1])
		default:
			ignored = append(ignored, pair)
		}
	}
	return tags, ignored
}

// splitEscaped splits a text where a separator has no backslash before it. Backslashes stay.
func splitEscaped(text string, separator byte) (parts []string) {
	start := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case separator:
			parts = append(parts, text[start:i])
			start = i + 1
		}
	}
	return append(parts, text[start:])
}

func unescape(text string) string {
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+1 < len(text) {
			i++
		}
		out.WriteByte(text[i])
	}
	return out.String()
}

// check refuses limits that are none.
func (o *options) check() error {
	if o.limitMounts && o.maxMounts <= 0 {
		return errors.New("--max-inflight-mount-calls-opt-in is set, but --max-inflight-mount-calls is not positive")
	}
	if o.limitVolumes && o.maxVolumes <= 0 {
		return errors.New("--volume-attach-limit-opt-in is set, but --volume-attach-limit is not positive")
	}
	return nil
}

// Main runs the program "aws-efs-csi-driver" and returns the exit status. As upstream's, it is the service of the
// controller and of the node in one.
func Main(args []string) int {
	var o options
	return csidriver.Run(o.flags(), args, o.serve)
}

// serve serves the CSI until the context ends.
func (o *options) serve(ctx context.Context, log *slog.Logger) error {
	if err := o.check(); err != nil {
		return err
	}
	name := os.Getenv("CSI_NODE_NAME")
	who, err := csidriver.FindNode(ctx, log, &imds.Client{}, name)
	if err != nil {
		return err
	}
	settings, err := csidriver.LoadConfig(ctx, "aws-efs-csi-driver", config.WithRegion(who.Region))
	if err != nil {
		return err
	}
	m := efsMounter{csidriver.NewMounter(), who.Region}
	c := &controller{options: *o, efs: efs.NewFromConfig(settings), zone: who.Zone, mounter: m,
		kubernetes: csidriver.NewKubernetes,
		assume:     func(role, externalID string) api { return efs.NewFromConfig(assume(settings, role, externalID)) }}
	n := newNode(*o, who, m)
	n.usage.done = ctx.Done()
	defer n.usage.counting.Wait()
	go csidriver.Taint{Driver: DriverName}.Remove(ctx, log, name)
	return csidriver.Serve(ctx, log, o.endpoint, func(s *grpc.Server) {
		csi.RegisterIdentityServer(s, &csidriver.Identity{Driver: DriverName})
		csi.RegisterControllerServer(s, c)
		csi.RegisterNodeServer(s, n)
	})
}

// assume returns settings with the credentials of a role.
func assume(settings aws.Config, role, externalID string) aws.Config {
	settings = settings.Copy()
	settings.Credentials = aws.NewCredentialsCache(stscreds.NewAssumeRoleProvider(sts.NewFromConfig(settings), role,
		func(o *stscreds.AssumeRoleOptions) {
			if externalID != "" {
				o.ExternalID = &externalID
			}
		}))
	return settings
}

// efsMounter mounts file systems of a region by mount.efs.
type efsMounter struct {
	csidriver.Mounter
	region string
}

// Mount says the region, which mount.efs would ask the metadata service for: pods of controllers may not reach it.
func (m efsMounter) Mount(source, target, kind string, options []string) error {
	return m.Mounter.Mount(source, target, kind, append([]string{"region=" + m.region}, options...))
}
