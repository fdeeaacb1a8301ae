package main

import (
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/coracle-eks/coracle/internal/daemon"
	"github.com/coracle-eks/coracle/internal/doctor"
	"github.com/coracle-eks/coracle/internal/etcd"
	"github.com/coracle-eks/coracle/internal/pid1"
)

// serveFlags are the flags of "serve" and "up". Each is also an environment variable.
type serveFlags struct {
	listen, advertiseAddress, region, account, machines, userNamespaces, egressCIDRs string
	bundles, logLevel, logFormat, metricsAddress                                     string
	etcdEndpoints                                                                    []string
	etcdCACert, etcdCert, etcdKey, etcdClientCAKey                                   string
	forward                                                                          []string
	names                                                                            []string
}

func (f *serveFlags) addFlags(flags *pflag.FlagSet) {
	text := func(to *string, name, usage string) {
		f.names = append(f.names, name)
		flags.StringVar(to, name, "", usage+" ["+environmentName(name)+"]")
	}
	text(&f.listen, "listen", "`address` of the AWS endpoint (default "+daemon.DefaultListen+
		", or that of the last start)")
	text(&f.advertiseAddress, "advertise-address",
		"`address` at which clients that reach nothing else of this host reach --listen, such as 127.0.0.1:5000 for the "+
			"published port of a container, or auto for any; clusters are reached through it, too (default none, or that "+
			"of the last start)")
	text(&f.region, "region", "`region` that \"coracle env\" exports (default "+daemon.DefaultRegion+
		", or that of the last start)")
	text(&f.account, "account", "twelve-digit `number` of the account that the first start makes (default "+
		daemon.DefaultAccount+")")
	text(&f.machines, "machines", "what EC2 instances are: `namespace|simulated` (default "+daemon.DefaultMachines+")")
	text(&f.egressCIDRs, "egress-cidrs",
		"`blocks` beside the public internet, such as 10.0.0.0/8,127.0.0.1/32, in which the daemon may ask identity "+
			"providers, "+
			"registries and webhooks that its users name (default none, or those of the last start)")
	f.names = append(f.names, "forward")
	flags.StringSliceVar(&f.forward, "forward", nil,
		"`SERVICE=URL` of an endpoint for a service that is not served, such as s3=http://127.0.0.1:9000; may be given "+
			"several times (default none, or those of the last start) [CORACLE_FORWARD]")
	text(&f.userNamespaces, "machine-user-namespaces",
		"whether root in a machine is an unprivileged user of this host: `auto|off`, auto where the kernel allows it "+
			"(default "+daemon.DefaultUserNamespaces+
			", or that of the last start); for machines of instances launched from now on")
	text(&f.bundles, "bundles", "the only `directory` to find and build Kubernetes programs in")
	text(&f.logLevel, "log-level", "least `level` that is logged: debug, info, warn or error (default info)")
	text(&f.logFormat, "log-format", "`format` of the log: text or json (default text)")
	text(&f.metricsAddress, "metrics-address",
		"`address` on which GET /metrics answers Prometheus, such as 127.0.0.1:9464 (default none; \"coracle debug "+
			"metrics\" needs none)")
	f.names = append(f.names, "etcd-endpoints")
	flags.StringSliceVar(&f.etcdEndpoints, "etcd-endpoints", nil,
		"`URLs` of an etcd cluster to use instead of the embedded etcd [CORACLE_ETCD_ENDPOINTS]")
	text(&f.etcdCACert, "etcd-cacert", "PEM `file` with the CA of that etcd")
	text(&f.etcdCert, "etcd-cert", "PEM `file` with the daemon's client certificate for that etcd")
	text(&f.etcdKey, "etcd-key", "PEM `file` with the key of --etcd-cert")
	text(&f.etcdClientCAKey, "etcd-client-ca-key",
		"PEM `file` with the key of --etcd-cacert, to give every cluster an etcd user of its own")
}

func (f *serveFlags) parseLogLevel() (level slog.Level, err error) {
	if f.logLevel == "" {
		return slog.LevelInfo, nil
	}
	if err := level.UnmarshalText([]byte(f.logLevel)); err != nil {
		return level, fmt.Errorf("--log-level %q is none of debug, info, warn and error", f.logLevel)
	}
	return level, nil
}

// newLogger writes to w as the flags say.
func (f *serveFlags) newLogger(w io.Writer) (*slog.Logger, error) {
	level, err := f.parseLogLevel()
	if err != nil {
		return nil, err
	}
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: cutAttr}
	switch f.logFormat {
	case "", "text":
		return slog.New(slog.NewTextHandler(w, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, options)), nil
	}
	return nil, fmt.Errorf("--log-format %q is neither text nor json", f.logFormat)
}

// maxAttr limits the bytes of a text in the log. Stacks have less; texts of users' own programs may have any number.
const maxAttr = 64 << 10

// cutAttr cuts a text that is logged, and lists and objects that have texts.
func cutAttr(_ []string, a slog.Attr) slog.Attr {
	text := ""
	switch a.Value.Kind() {
	case slog.KindString:
		text = a.Value.String()
	case slog.KindAny:
		text = fmt.Sprintf("%+v", a.Value.Any()) // as it is logged
	}
	if len(text) > maxAttr {
		a.Value = slog.StringValue(strings.ToValidUTF8(text[:maxAttr], "") + " ...")
	}
	return a
}

// givenArgs returns the flags that were given, for another coracle.
func (f *serveFlags) givenArgs(flags *pflag.FlagSet) []string {
	var args []string
	for _, name := range f.names {
		if flag := flags.Lookup(name); flag.Changed {
			value := flag.Value.String()
			if list, ok := flag.Value.(pflag.SliceValue); ok {
				value = strings.Join(list.GetSlice(), ",")
			}
			args = append(args, "--"+name+"="+value)
		}
	}
	return args
}

func serveCommand() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the daemon in the foreground; logs go to standard error",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if pid1.Is() {
				status, err := pid1.Run()
				if err == nil && status != 0 {
					return exitCode(status)
				}
				return err
			}
			dir, err := dataDir(cmd)
			if err != nil {
				return err
			}
			log, err := f.newLogger(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			h := describeHost(dir, f.listen, f.bundles)
			if f.machines != "" {
				h.Simulated = f.machines == "simulated"
			}
			for _, l := range doctor.Limitations(cmd.Context(), h) {
				log.Warn("this host is limited", "check", l.Check, "limitation", l.Text, "fix", l.Fix)
			}
			return daemon.Serve(cmd.Context(), daemon.Config{
				Dir: dir, Listen: f.listen, AdvertiseAddress: f.advertiseAddress, Region: f.region,
				Account: f.account, Machines: f.machines,
				UserNamespaces: f.userNamespaces, EgressCIDRs: f.egressCIDRs, Forward: strings.Join(f.forward, ","),
				Bundles: f.bundles, MetricsAddress: f.metricsAddress,
				Etcd: etcd.External{Endpoints: f.etcdEndpoints, CACert: f.etcdCACert, Cert: f.etcdCert, Key: f.etcdKey,
					ClientCAKey: f.etcdClientCAKey},
			}, log)
		},
	}
	f.addFlags(cmd.Flags())
	return cmd
}

// etcdCommand runs etcd as a child of the daemon. Users have no reason to call it.
func etcdCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:    "etcd",
		Short:  "Run the embedded etcd of a data directory",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE:   func(cmd *cobra.Command, _ []string) error { return etcd.Serve(cmd.Context(), dir) },
	}
	cmd.Flags().StringVar(&dir, "dir", "", "`directory` of the etcd")
	if err := cmd.MarkFlagRequired("dir"); err != nil {
		panic(err)
	}
	return cmd
}
