package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/coracle-eks/coracle/internal/amazonaccount"
	"github.com/coracle-eks/coracle/internal/datadir"
	"github.com/coracle-eks/coracle/internal/etcd"
	"github.com/coracle-eks/coracle/internal/freeport"
	"github.com/coracle-eks/coracle/internal/host/preflight"
	"github.com/coracle-eks/coracle/internal/outbound"
	"github.com/coracle-eks/coracle/internal/region"
)

// What is chosen unless flags, the environment or an earlier start say otherwise.
const (
	DefaultListen   = "127.0.0.1:4566"
	DefaultRegion   = "us-east-1"
	DefaultAccount  = "111122223333"
	DefaultMachines = "namespace"

	DefaultUserNamespaces = "auto"
)

// Values of flags.
const (
	none = "none" // clears --egress-cidrs, --advertise-address or --forward of an earlier start
	// Auto is the --advertise-address of a daemon that tells each client the address which the client used.
	Auto = "auto"
)

// Machines are the kinds of machines that EC2 instances can run on.
var Machines = []string{"namespace", "simulated"}

// UserNamespaces is whether machines have user namespaces: where the host allows it, or nowhere.
var UserNamespaces = []string{"auto", "off"}

// Config configures the daemon. Empty strings stand for what the data directory remembers, or the default.
type Config struct {
	Dir    datadir.Dir
	Listen string
	// AdvertiseAddress is the address at which clients that reach nothing else of this host reach Listen, HOST:PORT, or
	// "auto" for whichever address they use; "none" forgets that of an earlier start. API servers of clusters are served
	// there, too.
	AdvertiseAddress string
	Region           string
	Account          string
	Machines         string
	// EgressCIDRs are blocks beside the public internet that the daemon may connect to for users: CIDR blocks,
	// separated by commas; "none" forgets those of an earlier start.
	EgressCIDRs string
	// Forward are services whose requests are forwarded, each with the URL of its endpoint, separated by commas:
	// "s3=http://127.0.0.1:9000". "none" forgets those of an earlier start.
	Forward string
	// UserNamespaces is one of the variable of that name.
	UserNamespaces string
	// Bundles is the only directory of Kubernetes bundles, if not empty.
	Bundles string
	// MetricsAddress is the address that serves GET /metrics to Prometheus; none when empty.
	MetricsAddress string
	// Etcd is used instead of the embedded etcd if it has endpoints.
	Etcd etcd.External
}

var accountPattern = regexp.MustCompile(`^\d{12}$`)

// settings validates the choices of c, merged over the settings that the data directory stores. Once the daemon could
// start with them they are stored in turn.
func (c Config) settings(ctx context.Context) (datadir.Settings, error) {
	s, err := c.Dir.ReadSettings()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return s, err
	}
	choose := func(remembered *string, chosen, otherwise string) {
		switch {
		case chosen != "":
			*remembered = chosen
		case *remembered == "":
			*remembered = otherwise
		}
	}
	if c.Account != "" {
		if err := CheckAccount(c.Account); err != nil {
			return s, fmt.Errorf("--account: %w", err)
		}
	}
	if c.Account != "" && s.Account != "" && c.Account != s.Account {
		return s,
			fmt.Errorf(
				"--account %s: the account of %s is %s since its first start; make another with \"coracle account "+
					"create %s\"", c.Account, c.Dir, s.Account, c.Account)
	}
	choose(&s.Listen, c.Listen, DefaultListen)
	choose(&s.AdvertiseAddress, c.AdvertiseAddress, "")
	if s.AdvertiseAddress == none {
		s.AdvertiseAddress = ""
	}
	host, number, err := net.SplitHostPort(s.AdvertiseAddress)
	if (err != nil || host == "" || number == "") && s.AdvertiseAddress != "" && s.AdvertiseAddress != Auto {
		return s, fmt.Errorf("--advertise-address %q is neither HOST:PORT, such as %s, nor %s", s.AdvertiseAddress,
			DefaultListen, Auto)
	}
	choose(&s.Region, c.Region, DefaultRegion)
	choose(&s.Account, c.Account, DefaultAccount)
	if amazonaccount.Is(s.Account) {
		return s, fmt.Errorf("account %s, the first of %s, is one of Amazon's, whose credentials are refused since this "+
			"version. Start the version that made it again, take what is in the account to another, and begin with "+
			"another data directory (--data-dir)", s.Account, c.Dir)
	}
	choose(&s.Machines, c.Machines, DefaultMachines)
	choose(&s.EgressCIDRs, c.EgressCIDRs, "")
	if s.EgressCIDRs == none {
		s.EgressCIDRs = ""
	}
	if _, err := outbound.ParsePrefixes(s.EgressCIDRs); err != nil {
		return s, fmt.Errorf("--egress-cidrs: %w", err)
	}
	choose(&s.Forward, c.Forward, "")
	if s.Forward == none {
		s.Forward = ""
	}
	if err := checkForwards(c.Dir, s); err != nil {
		return s, fmt.Errorf("--forward %w", err)
	}
	choose(&s.UserNamespaces, c.UserNamespaces, DefaultUserNamespaces)
	if _, _, err := net.SplitHostPort(s.Listen); err != nil {
		return s, fmt.Errorf("--listen %q is not HOST:PORT, such as %s: %w", s.Listen, DefaultListen, err)
	}
	if err := CheckRegion(s.Region); err != nil {
		return s, fmt.Errorf("--region: %w", err)
	}
	if !slices.Contains(Machines, s.Machines) {
		return s, fmt.Errorf("--machines %q is neither namespace nor simulated", s.Machines)
	}
	if !slices.Contains(UserNamespaces, s.UserNamespaces) {
		return s, fmt.Errorf("--machine-user-namespaces %q is neither auto nor off", s.UserNamespaces)
	}
	if s.Simulated = ""; RealMachines(s) && !hasMachines(c.Dir) {
		s.Simulated = explainProblems(machineProblems(c.Dir))
	}
	if s.WebhookPort == 0 {
		if s.WebhookPort, err = freeport.Find(); err != nil {
			return s, err
		}
	}
	if s.PublicRange == "" && RealMachines(s) {
		chosen, err := choosePublicRange(ctx, c.Dir)
		if err != nil {
			return s, err
		}
		s.PublicRange = chosen.String()
	}
	return s, nil
}

// hasMachines reports whether an earlier daemon of dir has made machines. Their instances do not become simulated ones,
// whatever became of the host.
func hasMachines(dir datadir.Dir) bool {
	made, err := filepath.Glob(dir.Join("machines", "i-*"))
	return err == nil && len(made) > 0
}

// explainProblems returns the texts of problems as a reason; empty when there are none.
func explainProblems(problems []preflight.Problem) string {
	var reasons []string
	for _, p := range problems {
		reasons = append(reasons, p.Text)
	}
	return strings.Join(reasons, "; ")
}

// CheckAccount returns an error for what is no account number.
func CheckAccount(account string) error {
	if !accountPattern.MatchString(account) {
		return fmt.Errorf("%q is not an AWS account number of twelve digits, such as %s", account, DefaultAccount)
	}
	if amazonaccount.Is(account) {
		return fmt.Errorf("%s is an account of Amazon's; choose another, such as %s", account, DefaultAccount)
	}
	return nil
}

// CheckRegion returns an error for what is no region: requests that are signed for it would be refused.
func CheckRegion(code string) error {
	if !region.Valid(code) {
		return fmt.Errorf("%q is not a commercial region of AWS; choose one of %s", code,
			strings.Join(region.Codes(), ", "))
	}
	return nil
}

// AdvertisedURL returns the URL with which clients reach a daemon with these settings from wherever it is meant to be
// reached.
func AdvertisedURL(s datadir.Settings) string {
	if s.AdvertiseAddress == Auto {
		return EndpointURL(s.Listen)
	}
	return EndpointURL(cmp.Or(s.AdvertiseAddress, s.Listen))
}

// EndpointURL returns the URL with which clients on this host reach a daemon that listens on listen.
func EndpointURL(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "http://" + listen
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port)
}
