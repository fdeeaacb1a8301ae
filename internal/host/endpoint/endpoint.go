// Package endpoint runs the proxy that serves cluster endpoints, the egress of API servers into VPCs, and the DNS of
// VPCs.
//
// The proxy is a process of its own, "coracle endpoint" ([Serve]), which outlives the daemon, so that neither kubectl
// nor a pod notices when the daemon restarts. One file configures it, its [Config]:
//
//   - [Forward]: TCP connections to an address in a network namespace lead to an API server, which listens on 127.0.0.1
//     of the host. The public endpoint of a cluster is one in the namespace "internet", for those whom its
//     publicAccessCidrs allow; the private one is on the cluster's network interfaces, behind their security groups.
//   - [Egress]: a kube-apiserver that wants to reach a kubelet, a webhook or an aggregated API asks for the connection
//     here (HTTP CONNECT on a unix socket, as its egress selector does), and it starts at the cluster's network
//     interfaces, or, for a webhook that has a URL, in the namespace "internet". So nobody gets to this host by an API
//     server. One address leads nowhere: the process itself answers there with the metrics of the control plane
//     (internal/kube/extensionmetrics).
//   - [Resolver]: the DNS server of a VPC, on the second address of its range and on 169.254.169.253.
//   - [Balancer]: connections or HTTP requests to an address of a load balancer lead to its targets; those of
//     Application Load Balancers by their rules (internal/host/application). Another process of the same program has
//     these, which internal/host/balancer configures: what tenants send to their pods is not mixed with what goes to
//     API servers.
//
// The [Controller] runs in the daemon. It reads Clusters, ControlPlanes, NetworkInterfaces, VPCs, Addresses,
// VPCEndpoints, Instances and, for their names, LoadBalancers and TargetHealths, writes the file, has the process read
// it, and enters the names of clusters into the host's /etc/hosts. It writes no rows. Everything follows from the
// store: kill either of the two at any instruction, and the next reconcile pass repairs it.
package endpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/coracle-eks/coracle/internal/durable"
	"github.com/coracle-eks/coracle/internal/kube/extensionmetrics"
)

// Config is the configuration of the process. The same records give the same Config.
type Config struct {
	Forwards  []Forward
	Egresses  []Egress
	Resolvers []Resolver
	Balancers []Balancer `json:",omitempty"`
	// LogDir is the directory in which the logs of load balancers wait for their delivery.
	LogDir string `json:",omitempty"`
	// Names are addresses by name as the internet knows them: the endpoints of clusters. Every resolver answers them,
	// unless its own Records say otherwise.
	Names map[string][]netip.Addr
}

// Forward leads TCP connections to a server on this host.
type Forward struct {
	// Namespace is the path of a network namespace in which it listens; empty for the host's.
	Namespace string `json:",omitempty"`
	Listen    netip.AddrPort
	// Target is the address that connections are forwarded to, in the host's namespace: "127.0.0.1:20001".
	Target string
	// Socket is the unix socket at which the server takes forwarded connections, each of which begins with a line that
	// has the address of the client. Target is for a server that has none.
	Socket string `json:",omitempty"`
	// Allow are the sources that may connect; packets of others are dropped. Nil allows everybody.
	Allow []netip.Prefix `json:",omitempty"`
}

func (f Forward) listenerKey() string {
	return "forward " + f.Listen.String() + " in " + namespaceName(f.Namespace)
}

// Egress is a proxy through which an API server connects to what is in a VPC, or on the internet.
type Egress struct {
	// Socket is the path of the unix socket at which it takes HTTP CONNECT.
	Socket string
	// Namespace is the path of the network namespace from which it connects.
	Namespace string
	// DNS is the resolver of names, in that namespace; it is not valid where this host's resolvers resolve them.
	DNS netip.AddrPort
	// Host are the addresses to which connections start in the host's namespace: "127.0.0.1:20001".
	Host []string `json:",omitempty"`
	// Metrics is what answers at [extensionmetrics.Address]; nil where nothing does.
	Metrics *extensionmetrics.Config `json:",omitempty"`
}

func (e Egress) listenerKey() string { return "egress at " + filepath.Base(e.Socket) }

// Resolver is the DNS server of a VPC.
// https://docs.aws.amazon.com/vpc/latest/userguide/AmazonDNS-concepts.html
type Resolver struct {
	// Namespace is the path of the VPC's network namespace, Addresses where it listens there, on port 53.
	Namespace string
	Addresses []netip.Addr
	Region    string
	// CIDRs are the ranges of the VPC: each of their addresses has its private DNS name, and is found by it.
	CIDRs []netip.Prefix
	// API is the address of AWS's APIs.
	API netip.Addr
	// ForwardsS3 is set where the names of Amazon S3 lead to API, those of all buckets with them.
	ForwardsS3 bool `json:",omitempty"`
	// Public are the private addresses in this VPC by their public ones, for the public DNS names.
	Public map[netip.Addr]netip.Addr `json:",omitempty"`
	// Records are addresses by name, in lower case and without the dot at the end: private endpoints of clusters,
	// interface endpoints, resource names of instances, file systems with an Availability Zone, and private hosted zones
	// once there are any.
	Records map[string][]netip.Addr `json:",omitempty"`
	// ZonalRecords are addresses by name and Availability Zone: of file systems. Subnets tells the Availability Zone
	// of who asks.
	ZonalRecords map[string]map[string][]netip.Addr `json:",omitempty"`
	Subnets      []SubnetZone                       `json:",omitempty"`
}

func (r Resolver) listenerKey() string { return "DNS in " + namespaceName(r.Namespace) }

func namespaceName(namespace string) string {
	if namespace == "" {
		return "the host's namespace"
	}
	return filepath.Base(namespace)
}

// report is the response of the process after it has read its file: the problems of the parts that it could not apply,
// by key.
type report struct {
	Problems map[string]string
}

// The files in the process's directory.
func configFile(dir string) string    { return filepath.Join(dir, "config.json") }
func controlSocket(dir string) string { return filepath.Join(dir, "control.sock") }

// readConfig reads the file. There is nothing to do when there is none.
func readConfig(dir string) (c Config, err error) {
	text, err := os.ReadFile(configFile(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return c, err
	}
	if err := json.Unmarshal(text, &c); err != nil {
		return c, fmt.Errorf("%s: %w", configFile(dir), err)
	}
	return c, nil
}

// writeConfig replaces the file at once.
func writeConfig(dir string, text []byte) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return durable.WriteFile(configFile(dir), text, 0o600)
}
