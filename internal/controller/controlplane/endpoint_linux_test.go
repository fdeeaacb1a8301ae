package controlplane

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/miekg/dns"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"k8s.io/client-go/rest"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/host/endpoint"
	"github.com/coracle-eks/coracle/internal/host/hostsfile"
	"github.com/coracle-eks/coracle/internal/kube/extensionmetrics"
	"github.com/coracle-eks/coracle/internal/pki"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/testenv"
)

// vpc is a VPC made by hand: the namespaces "internet", the cluster's leg and a node, and a router between them that
// has their addresses.
type vpc struct {
	*daemon
	path string

	mu    sync.Mutex
	hosts []hostsfile.Entry
}

// The links of the node with the cluster's leg, and of a client with the internet.
const (
	nodeAddress   = "172.31.0.200"
	clientAddress = "198.18.8.1"
)

func (v *vpc) namespace(name string) string { return filepath.Join(v.path, name) }

func (v *vpc) make(name string) {
	v.Helper()
	path := v.namespace(name)
	if err := os.WriteFile(path, nil, 0o444); err != nil {
		v.Fatal(err)
	}
	failed := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread goes
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			failed <- err
			return
		}
		failed <- unix.Mount("/proc/thread-self/ns/net", path, "", unix.MS_BIND, "")
	}()
	if err := <-failed; err != nil {
		v.Fatal(err)
	}
	v.Cleanup(func() { unix.Unmount(path, unix.MNT_DETACH) })
	v.inside(name, func() error { return up("lo") })
}

func up(link string, addresses ...string) error {
	l, err := netlink.LinkByName(link)
	if err != nil {
		return err
	}
	for _, text := range addresses {
		a, err := netlink.ParseAddr(text)
		if err != nil {
			return err
		}
		if err := netlink.AddrAdd(l, a); err != nil {
			return err
		}
	}
	return netlink.LinkSetUp(l)
}

func (v *vpc) inside(name string, f func() error) {
	v.Helper()
	if err := v.try(name, f); err != nil {
		v.Fatal(err)
	}
}

func (v *vpc) try(name string, f func() error) error {
	there, err := os.Open(v.namespace(name))
	if err != nil {
		return err
	}
	defer there.Close()
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
			done <- err
			return
		}
		done <- f()
	}()
	return <-done
}

func (v *vpc) wire(a, b string, addressesA, addressesB []string) {
	v.Helper()
	there, err := os.Open(v.namespace(b))
	if err != nil {
		v.Fatal(err)
	}
	defer there.Close()
	v.inside(a, func() error {
		if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "eth0"}, PeerName: "eth0",
			PeerNamespace: netlink.NsFd(int(there.Fd()))}); err != nil {
			return err
		}
		return up("eth0", addressesA...)
	})
	v.inside(b, func() error { return up("eth0", addressesB...) })
}

// client asks as an administrator, from a namespace, at whatever address that knows for the name of the cluster's
// endpoint.
func (v *vpc) client(c record.Cluster, namespace string, address func() string) *http.Client {
	v.Helper()
	config, err := v.controller.Config(v.Context(), c, "admin", "system:masters")
	if err != nil {
		v.Fatal(err)
	}
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		v.Fatal(err)
	}
	return &http.Client{Timeout: eventually.Limit, Transport: &http.Transport{TLSClientConfig: tlsConfig,
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, _ string) (conn net.Conn, err error) {
			failed := v.try(namespace, func() error {
				conn, err = new(net.Dialer).DialContext(ctx, network, net.JoinHostPort(address(), "443"))
				return err
			})
			return conn, failed
		}}}
}

// lookup asks the resolver of the VPC.
func (v *vpc) lookup(name string) string {
	v.Helper()
	var conn net.Conn
	v.inside("vpc-1", func() (err error) {
		conn, err = net.Dial("udp", "169.254.169.253:53")
		return err
	})
	defer conn.Close()
	reply, _, err := (&dns.Client{Timeout: eventually.Limit}).ExchangeWithConn(new(dns.Msg).SetQuestion(dns.Fqdn(name),
		dns.TypeA), &dns.Conn{Conn: conn})
	if err != nil {
		return err.Error()
	}
	var all []string
	for _, rr := range reply.Answer {
		all = append(all, dns.Field(rr, 1))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func startInVPC(t *testing.T) *vpc {
	t.Helper()
	testenv.NeedsRoot(t)
	dir, owner := newDataDirectory(t)
	path, err := os.MkdirTemp("", "vpc") // short, because unix sockets are in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(path) })
	v := &vpc{path: path}
	v.daemon = start(t, dir, owner, func(o *Options) {
		o.Endpoints, err = endpoint.New(endpoint.Options{
			Store: o.Store, Host: o.Host.(endpoint.Host), Owner: owner, Dir: filepath.Join(path, "endpoint"),
			LogFile: filepath.Join(dir, "endpoint.log"),
			Program: os.Args[0], Namespace: v.namespace, PublicRange: netip.MustParsePrefix("198.18.8.0/21"),
			API: netip.MustParseAddr("198.18.8.3"), Log: o.Log,
			Metrics: func(seen record.ControlPlane) extensionmetrics.Config { return MetricsAPI(o.Dir, seen) },
			SetNames: func(_ context.Context, _ string, entries []hostsfile.Entry) error {
				v.mu.Lock()
				defer v.mu.Unlock()
				v.hosts = entries
				return nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
	})
	return v
}

// known returns the addresses of the cluster in the host's /etc/hosts.
func (v *vpc) known(c record.Cluster) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	var all []string
	for _, e := range v.hosts {
		if e.Name == endpointName(c) {
			all = append(all, e.Address.String())
		}
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// provideInterfaces gives the cluster's interfaces what EC2 and the network would.
func (v *vpc) provideInterfaces(c record.Cluster) (addresses []string) {
	v.Helper()
	v.until("network interfaces", func() bool { return len(v.ec2.state().Interfaces) == zones })
	for _, i := range v.ec2.state().Interfaces {
		addresses = append(addresses, *i.PrivateIpAddress)
		row := record.NetworkInterface{EC2Resource: record.EC2Resource{Account: account, Region: region,
			ID: *i.NetworkInterfaceId}, VPCID: "vpc-1", PrivateIPs: []string{*i.PrivateIpAddress}}
		if _, err := record.NetworkInterfaces(v.store).Create(v.Context(), row.Key(), row); err != nil {
			v.Fatal(err)
		}
	}
	slices.Sort(addresses)
	v.make(c.ID)
	v.make("node")
	v.wire(c.ID, "node", []string{addresses[0] + "/16", addresses[1] + "/32"}, []string{nodeAddress + "/16"})
	return addresses
}

func TestEndpointAccess(t *testing.T) {
	needBundle(t, "1.35")
	v := startInVPC(t)
	v.make("internet")
	v.make("client")
	v.make("vpc-1")
	v.wire("internet", "client", []string{"198.18.8.16/24"}, []string{clientAddress + "/24"})
	v.inside("vpc-1", func() error { return up("lo", "172.31.0.2/32", "169.254.169.253/32") })
	row := record.VPC{
		EC2Resource:      record.EC2Resource{Account: account, Region: region, ID: "vpc-1"},
		CIDRs:            []record.CIDRAssociation{{CIDR: "172.31.0.0/16"}},
		EnableDNSSupport: true, EnableDNSHostnames: true,
	}
	if _, err := record.VPCs(v.store).Create(t.Context(), row.Key(), row); err != nil {
		t.Fatal(err)
	}
	c := v.create(newCluster("ironman", "1.35"))
	private := strings.Join(v.provideInterfaces(c), " ")
	v.until("ready", func() bool { return v.plane(c).Ready })
	name := endpointName(c)
	if got := v.plane(c); got.Endpoint != "https://"+name || got.PublicAddress != "198.18.8.16" {
		t.Errorf("endpoint %s, %s", got.Endpoint, got.PublicAddress)
	}

	first := func(addresses string) string { a, _, _ := strings.Cut(addresses, " "); return a }
	outside := v.client(c, "client", func() string { return first(v.known(c)) })
	inside := v.client(c, "node", func() string { return first(v.lookup(name)) })
	pod := v.client(c, "node", func() string { return first(private) }) // by the service "kubernetes"
	ask := func(client *http.Client) error {
		_, err := getHealth(t.Context(), client, "https://"+name+"/readyz")
		return err
	}
	no := func(what string, client *http.Client) {
		t.Helper()
		impatient := *client
		impatient.Timeout = time.Second // what does not come at once never does
		err := ask(&impatient)
		var timeout net.Error
		if err == nil || !errors.As(err, &timeout) || !timeout.Timeout() && !strings.Contains(err.Error(),
			"unreachable") {
			t.Errorf("%s: %v", what, err)
		}
	}
	yes := func(what string, client *http.Client) {
		t.Helper()
		if err := ask(client); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	access := func(public, private bool, cidrs ...string) {
		t.Helper()
		id := v.update(c, record.Update{Type: ekstypes.UpdateTypeEndpointAccessUpdate}, func(c *record.Cluster) {
			c.EndpointPublicAccess, c.EndpointPrivateAccess, c.PublicAccessCIDRs = public, private, cidrs
		})
		v.until("the update", func() bool { return v.updated(c, id).Status != ekstypes.UpdateStatusInProgress })
		if u := v.updated(c, id); u.Status != ekstypes.UpdateStatusSuccessful {
			t.Fatalf("update %+v", u)
		}
	}

	// Public: the name is the public address everywhere. The node of this test has no way there, which it would take
	// through an internet gateway; its pods have the service.
	if host, dns := v.known(c), v.lookup(name); host != "198.18.8.16" || dns != "198.18.8.16" {
		t.Errorf("public: %q on the host, %q in the VPC", host, dns)
	}
	yes("public, from outside", outside)
	no("public, from the VPC without a way out", inside)
	yes("public, from a pod", pod)

	// Public and private: each side has its own.
	access(true, true)
	if host, dns := v.known(c), v.lookup(name); host != "198.18.8.16" || dns != private {
		t.Errorf("public and private: %q on the host, %q in the VPC", host, dns)
	}
	yes("both, from outside", outside)
	yes("both, from the VPC", inside)

	// publicAccessCidrs concern the public endpoint alone.
	access(true, true, "44.203.113.0/24")
	no("from an address that is not among publicAccessCidrs", outside)
	yes("from the VPC, whatever publicAccessCidrs are", inside)
	access(true, true, "44.203.113.0/24", clientAddress+"/32")
	yes("from one that is", outside)

	// Private: the name still resolves outside, to addresses that cannot be reached from there.
	access(false, true)
	if host, dns := v.known(c), v.lookup(name); host != private || dns != private {
		t.Errorf("private: %q on the host, %q in the VPC", host, dns)
	}
	no("private, from outside", outside)
	public := v.client(c, "client", func() string { return "198.18.8.16" })
	if err := ask(public); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("private, at the former public address: %v", err)
	}
	yes("private, from the VPC", inside)

	v.egress(c)
	v.metrics(c)

	// The end leaves no name.
	v.remove(c)
	v.until("the name to go", func() bool { return v.known(c) == "" && v.lookup(name) == "" })
}

// egress checks that what the API server asks of nodes and of webhooks starts at the cluster's interfaces.
func (v *vpc) egress(c record.Cluster) {
	v.Helper()
	secrets, err := record.ControlPlaneSecretsTable(v.store).Get(v.Context(), c.Key())
	if err != nil {
		v.Fatal(err)
	}
	k, err := parseSecrets(secrets.Value)
	if err != nil {
		v.Fatal(err)
	}
	issued, err := k.ca.Issue(pki.Leaf{
		CommonName: "node", Server: true, DNSNames: []string{"hook.default.svc"},
		IPs: []net.IP{net.ParseIP(nodeAddress), net.ParseIP(clientAddress), net.IPv4(127, 0, 0, 1)},
	})
	if err != nil {
		v.Fatal(err)
	}
	pair, err := tls.X509KeyPair(issued.Certificate, issued.Key)
	if err != nil {
		v.Fatal(err)
	}
	var sources sync.Map
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		sources.Store(r.URL.Path, host)
		if strings.HasPrefix(r.URL.Path, "/hook") {
			body, _ := io.ReadAll(r.Body)
			_, rest, _ := bytes.Cut(body, []byte(`"uid":"`))
			uid, _, _ := bytes.Cut(rest, []byte(`"`))
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w,
				`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":%q,"allowed":false,"status":{"message":"the webhook says no"}}}`, uid)
			return
		}
		fmt.Fprint(w, "this is the node")
	})
	listen := func(address string) (at string, err error) {
		l, err := net.Listen("tcp4", address)
		if err != nil {
			return "", err
		}
		server := &http.Server{Handler: handler, TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}},
			ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
		go server.ServeTLS(l, "", "") //nolint:errcheck
		v.Cleanup(func() { server.Close() })
		return l.Addr().String(), nil
	}
	for address, namespace := range map[string]string{nodeAddress + ":10250": "node", nodeAddress + ":8443": "node",
		clientAddress + ":8443": "client"} {
		v.inside(namespace, func() error { _, err := listen(address); return err })
	}
	ofHost, err := listen("127.0.0.1:0") // as many programs do that trust who is on their machine
	if err != nil {
		v.Fatal(err)
	}
	client, host := v.daemon.client(c, "admin", "system:masters")
	put := func(path, body string) (int, string) {
		v.Helper()
		response, err := client.Post(host+path, "application/json", strings.NewReader(body))
		if err != nil {
			v.Fatal(err)
		}
		defer response.Body.Close()
		answer, err := io.ReadAll(response.Body)
		if err != nil {
			v.Fatal(err)
		}
		return response.StatusCode, string(answer)
	}
	must := func(path, body string) {
		v.Helper()
		if status, answer := put(path, body); status != http.StatusCreated {
			v.Fatalf("%s: %d %s", path, status, answer)
		}
	}
	must("/api/v1/nodes",
		`{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"},"status":{"addresses":[{"type":"InternalIP","address":"`+nodeAddress+`"}],"daemonEndpoints":{"kubeletEndpoint":{"Port":10250}}}}`)
	if answer, err := getHealth(v.Context(), client, host+"/api/v1/nodes/n/proxy/pods"); err != nil ||
		string(answer) != "this is the node" {
		v.Errorf("through the API server to the kubelet: %q, %v", answer, err)
	}
	must("/api/v1/namespaces/default/services",
		`{"apiVersion":"v1","kind":"Service","metadata":{"name":"hook"},"spec":{"ports":[{"port":443,"targetPort":8443}]}}`)
	must("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", `{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":{"name":"hook","labels":{"kubernetes.io/service-name":"hook"}},
		"addressType":"IPv4","endpoints":[{"addresses":["`+nodeAddress+
		`"],"conditions":{"ready":true}}],"ports":[{"port":8443,"protocol":"TCP","name":""}]}`)
	must("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingWebhookConfiguration","metadata":{"name":"hook"},
		"webhooks":[{"name":"hook.example.com","admissionReviewVersions":["v1"],"sideEffects":"None",
		"failurePolicy":"Fail","timeoutSeconds":5,
		"clientConfig":{"caBundle":"`+base64.StdEncoding.EncodeToString(
		k.ca.PEM)+`","service":{"name":"hook","namespace":"default","path":"/hook"}},
		"rules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["configmaps"]}],"matchConditions":[{"name":"ours","expression":"object.metadata.name == 'refused'"}]}]}`)
	v.until("the webhook's answer", func() bool {
		status, answer := put("/api/v1/namespaces/default/configmaps?dryRun=All",
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"refused"}}`)
		return status == http.StatusBadRequest && strings.Contains(answer, "the webhook says no")
	})

	// A webhook with a URL is on the internet, whoever may make one.
	for name, url := range map[string]string{"internet": "https://" + clientAddress + ":8443/hook-internet",
		"host": "https://" + ofHost + "/hook-host", "node": "https://" + nodeAddress + ":8443/hook-node"} {
		must("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
			`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingWebhookConfiguration","metadata":{"name":"`+name+`"},
			"webhooks":[{"name":"`+name+`.example.com","admissionReviewVersions":["v1"],"sideEffects":"None",
		"failurePolicy":"Fail","timeoutSeconds":5,
			"clientConfig":{"caBundle":"`+base64.StdEncoding.EncodeToString(k.ca.PEM)+`","url":"`+url+`"},
			"rules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["configmaps"]}],"matchConditions":[{"name":"ours","expression":"object.metadata.name == '`+name+`'"}]}]}`)
		v.until("an answer about the webhook at "+url, func() bool {
			status, answer := put("/api/v1/namespaces/default/configmaps?dryRun=All",
				`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"`+name+`"}}`)
			if name == "internet" {
				return status == http.StatusBadRequest && strings.Contains(answer, "the webhook says no")
			}
			return status == http.StatusInternalServerError && strings.Contains(answer, "failed calling webhook")
		})
	}
	for _, path := range []string{"/hook-host", "/hook-node"} {
		if source, reached := sources.Load(path); reached {
			v.Errorf("%s was asked by %s", path, source)
		}
	}
	sources.Delete("/hook-internet")
	leg := v.ec2.state().Interfaces
	sources.Range(func(path, source any) bool {
		if source != *leg[0].PrivateIpAddress && source != *leg[1].PrivateIpAddress {
			v.Errorf("%s came from %s", path, source)
		}
		return true
	})
}
