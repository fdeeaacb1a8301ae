//go:build linux

package metadata

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/host/machine/machinetest"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

const account, region = "111122223333", "eu-west-1"

// world is a VPC as far as metadata goes: a router that has the address of the service, a machine, and a pod behind the
// machine.
//
//	router 169.254.169.254, 10.0.0.1 ── 10.0.0.4 machine ── pod 10.0.0.20
type world struct {
	t       testing.TB
	dir     string
	store   *store.Store
	clock   *clocktesting.FakePassiveClock
	changed chan string
	moving  atomic.Bool // addresses are not yet whose the store says they are

	mu          sync.Mutex
	credentials func(role string) (aws.Credentials, error)
	asked       int
}

func (w *world) Listen(ctx context.Context, namespace, network, address string) (l net.Listener, err error) {
	path := filepath.Join(w.dir, namespace)
	if _, err := os.Stat(path); err != nil {
		return nil, err
	}
	in := machinetest.In(path, func() error {
		l, err = (&net.ListenConfig{}).Listen(ctx, network, address)
		return err
	})
	return l, in
}

func (w *world) Identity(namespace string) (uint64, error) {
	var s unix.Stat_t
	if err := unix.Stat(filepath.Join(w.dir, namespace), &s); err != nil {
		return 0, fmt.Errorf("%s: %w", namespace, fs.ErrNotExist)
	}
	return s.Ino, nil
}

func (w *world) Carries(string, netip.Addr, string) bool { return !w.moving.Load() }

func (w *world) RouterSource() reconcile.Source { return reconcile.Channel(w.changed) }

// namespace makes a network namespace.
func (w *world) namespace(name string) string {
	w.t.Helper()
	path := filepath.Join(w.dir, name)
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		w.t.Fatal(err)
	}
	err := machinetest.In("", func() error {
		if _, err := netns.New(); err != nil {
			return err
		}
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		if err := netlink.LinkSetUp(lo); err != nil {
			return err
		}
		return unix.Mount(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()), path, "", unix.MS_BIND, "")
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = unix.Unmount(path, unix.MNT_DETACH) })
	return path
}

// cable connects two namespaces.
func (w *world) cable(a, aName, b, bName string) {
	w.t.Helper()
	other, err := netns.GetFromPath(b)
	if err != nil {
		w.t.Fatal(err)
	}
	defer other.Close()
	if err := machinetest.In(a, func() error {
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: aName}, PeerName: bName,
			PeerNamespace: netlink.NsFd(int(other))})
	}); err != nil {
		w.t.Fatal(err)
	}
}

// configure gives a link its address and routes: "destination via gateway", or "destination".
func (w *world) configure(path, link, address string, routes ...string) {
	w.t.Helper()
	err := machinetest.In(path, func() error {
		l, err := netlink.LinkByName(link)
		if err != nil {
			return err
		}
		if address != "" {
			a, err := netlink.ParseAddr(address)
			if err != nil {
				return err
			}
			if err := netlink.AddrAdd(l, a); err != nil {
				return err
			}
		}
		if err := netlink.LinkSetUp(l); err != nil {
			return err
		}
		for _, r := range routes {
			destination, gateway, via := strings.Cut(r, " via ")
			_, dst, err := net.ParseCIDR(destination)
			if err != nil {
				return err
			}
			route := &netlink.Route{LinkIndex: l.Attrs().Index, Dst: dst, Scope: netlink.SCOPE_LINK}
			if via {
				route.Gw, route.Scope, route.Flags = net.ParseIP(gateway), netlink.SCOPE_UNIVERSE,
					int(netlink.FLAG_ONLINK)
			}
			if err := netlink.RouteAdd(route); err != nil {
				return fmt.Errorf("route %s: %w", r, err)
			}
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

func put[T any](t testing.TB, table store.Table[T], key string, row T) {
	t.Helper()
	if _, err := table.Put(context.Background(), key, row); err != nil {
		t.Fatal(err)
	}
}

func resource(id string) record.EC2Resource {
	return record.EC2Resource{Account: account, Region: region, ID: id}
}

const machineID = "i-0123456789abcdef0"

// newRows is a world of which there are only the rows.
func newRows(t testing.TB) *world {
	w := &world{t: t, dir: t.TempDir(), store: storetest.New(t), changed: make(chan string, 1),
		clock: clocktesting.NewFakePassiveClock(time.Date(2026, 11, 21, 14, 0, 0, 0, time.UTC))}
	s := w.store
	key := func(id string) string { return record.EC2Key(account, region, id) }
	put(t, record.VPCs(s), key("vpc-1"), record.VPC{EC2Resource: resource("vpc-1"),
		CIDRs: []record.CIDRAssociation{{CIDR: "10.0.0.0/16"}, {CIDR: "100.64.0.0/16"}}, EnableDNSHostnames: true})
	put(t, record.Subnets(s), key("subnet-1"), record.Subnet{EC2Resource: resource("subnet-1"), VPCID: "vpc-1",
		CIDR: "10.0.0.0/24"})
	put(t, record.SecurityGroups(s), key("sg-1"), record.SecurityGroup{EC2Resource: resource("sg-1"), Name: "nodes"})
	put(t, record.SecurityGroups(s), key("sg-2"), record.SecurityGroup{EC2Resource: resource("sg-2"), Name: "extra"})
	put(t, record.NetworkInterfaces(s), key("eni-1"), record.NetworkInterface{
		EC2Resource: resource("eni-1"), VPCID: "vpc-1", SubnetID: "subnet-1", MACAddress: "0a:00:00:00:00:01",
		SecurityGroupIDs: []string{"sg-1", "sg-2"},
		PrivateIPs:       []string{"10.0.0.4", "10.0.0.20"}, PublicIP: "198.18.1.7",
		Attachment: &record.NetworkInterfaceAttachment{InstanceID: machineID},
	})
	put(t, record.NetworkInterfaces(s), key("eni-2"), record.NetworkInterface{
		EC2Resource: resource("eni-2"), VPCID: "vpc-1", SubnetID: "subnet-1", MACAddress: "0a:00:00:00:00:02",
		SecurityGroupIDs: []string{"sg-1"},
		PrivateIPs:       []string{"10.0.0.5"}, IPv4Prefixes: []string{"10.0.0.32/28"},
		Attachment: &record.NetworkInterfaceAttachment{InstanceID: machineID, DeviceIndex: 1},
	})
	block := func(first string, b record.AddressBlock) {
		put(t, record.AddressBlocks(s), record.AddressBlockKey(account, region, "subnet-1", first), b)
	}
	block("10.0.0.0", record.AddressBlock{Addresses: map[string]string{"10.0.0.4": "eni-1", "10.0.0.5": "eni-2"}})
	block("10.0.0.16", record.AddressBlock{Addresses: map[string]string{"10.0.0.20": "eni-1"}})
	block("10.0.0.32", record.AddressBlock{PrefixOf: "eni-2"})
	put(t, record.EC2TagsTable(s), key(machineID), record.EC2Tags{ResourceID: machineID,
		Tags: map[string]string{"Name": "node", "team": "a"}})
	put(t, record.InstanceProfiles(s), record.InstanceProfileKey(account, "nodes"),
		record.InstanceProfile{Account: account, Name: "nodes", Path: "/", ID: "AIPA1", Role: "NodeRole"})
	put(t, record.KeyPairNames(s), key("mine"), record.KeyPairName{KeyPairID: "key-1"})
	put(t, record.KeyPairs(s), key("key-1"), record.KeyPair{EC2Resource: resource("key-1"), Name: "mine",
		PublicKey: "ssh-ed25519 AAAA"})
	put(t, record.Instances(s), key(machineID), record.Instance{
		EC2Resource: resource(machineID), ReservationID: "r-1", ImageID: "ami-1", InstanceType: "m5.large",
		AvailabilityZone: "eu-west-1a", VPCID: "vpc-1", SubnetID: "subnet-1",
		KeyName: "mine", UserData: []byte("#!/bin/sh\n\x00"),
		InstanceProfileARN: "arn:aws:iam::111122223333:instance-profile/nodes", InstanceProfileID: "AIPA1",
		Metadata: record.InstanceMetadataOptions{
			HTTPEndpoint: ec2types.InstanceMetadataEndpointStateEnabled, HTTPTokens: ec2types.HttpTokensStateOptional,
			HTTPPutResponseHopLimit: 1,
			InstanceMetadataTags:    ec2types.InstanceMetadataTagsStateDisabled,
		},
		LaunchTime: time.Date(2026, 11, 21, 13, 59, 58, 7, time.UTC), Wanted: ec2types.InstanceStateNameRunning,
		Boot: 1,
	})
	w.credentials = func(role string) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: "ASIA" + role, SecretAccessKey: "secret", SessionToken: "token",
			CanExpire: true, Expires: w.clock.Now().Add(time.Hour)}, nil
	}
	return w
}

func newWorld(t testing.TB) *world {
	machinetest.Owner(t) // root only
	w := newRows(t)
	router, machine, pod := w.namespace("vpc-1"), w.namespace("machine"), w.namespace("pod")
	w.configure(router, "lo", "169.254.169.254/32")
	w.cable(router, "r0", machine, "eth0")
	w.cable(machine, "p0", pod, "eth0")
	w.configure(router, "r0", "10.0.0.1/24")
	w.configure(machine, "eth0", "10.0.0.4/24", "169.254.169.254/32 via 10.0.0.1")
	w.configure(router, "r0", "", "10.0.0.20/32 via 10.0.0.4", "10.0.0.33/32 via 10.0.0.4", "10.0.0.99/32 via 10.0.0.4")
	w.configure(machine, "p0", "", "10.0.0.20/32")
	if err := machinetest.In(machine, func() error {
		return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"),
			0)
	}); err != nil {
		t.Fatal(err)
	}
	w.configure(machine, "p0", "169.254.1.1/32")
	w.configure(pod, "eth0", "10.0.0.20/32", "169.254.1.1/32", "169.254.169.254/32 via 169.254.1.1")

	service := w.service()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- reconcile.Run(ctx, slog.New(slog.DiscardHandler), service.Controllers()...) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	eventually.Nil(t, "the service listens", func() error {
		_, err := w.client("machine", "").Get("http://" + Address + "/")
		return err
	})
	return w
}

func (w *world) service() *Service {
	return New(Options{
		Store: w.store, Network: w, Dir: filepath.Join(w.dir, "metadata"), Log: slog.New(slog.DiscardHandler),
		Clock: w.clock,
		Credentials: func(_ context.Context, i record.Instance, role string) (aws.Credentials, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.asked++
			return w.credentials(role)
		},
		ZoneID: func(_, zone string) string { return "euw1-az" + zone[len(zone)-1:] },
	})
}

func (w *world) change(change func(*record.Instance)) {
	w.t.Helper()
	if _, err := record.Instances(w.store).Modify(context.Background(), record.EC2Key(account, region, machineID),
		func(i *record.Instance) error { change(i); return nil }); err != nil {
		w.t.Fatal(err)
	}
}

// client makes requests from inside a namespace, from a certain address if one is given.
func (w *world) client(namespace, from string) *http.Client {
	return &http.Client{
		Timeout: eventually.Limit,
		Transport: &http.Transport{
			DisableKeepAlives: true, TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{},
			DialContext: func(ctx context.Context, network, address string) (c net.Conn, err error) {
				d := net.Dialer{}
				if from != "" {
					d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(from)}
				}
				in := machinetest.In(filepath.Join(w.dir, namespace), func() error {
					c, err = d.DialContext(ctx, network, address)
					return err
				})
				return c, in
			},
		},
	}
}

// pipelined writes requests at once, and gives back what comes in the time in which the kernel repeats itself several
// times.
func (w *world) pipelined(namespace, requests string) string {
	w.t.Helper()
	c, err := w.client(namespace, "").Transport.(*http.Transport).DialContext(w.t.Context(), "tcp", Address)
	if err != nil {
		w.t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, requests); err != nil {
		w.t.Fatal(err)
	}
	if err := c.SetReadDeadline(time.Now().Add(2 * time.Second)); err != nil {
		w.t.Fatal(err)
	}
	all, _ := io.ReadAll(c) // it ends with the deadline
	return string(all)
}

type reply struct {
	status int
	body   string
	header http.Header
}

func (w *world) do(method, path string, header ...string) reply {
	w.t.Helper()
	r, err := w.ask(w.client("machine", ""), method, path, header...)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

func (w *world) ask(client *http.Client, method, path string, header ...string) (reply, error) {
	request, err := http.NewRequest(method, "http://"+Address+path, nil)
	if err != nil {
		return reply{}, err
	}
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response, err := client.Do(request)
	if err != nil {
		return reply{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return reply{response.StatusCode, string(body), response.Header}, err
}

func TestWhatAnInstanceReads(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for path, want := range map[string]string{
		"/latest":                                                                                  "dynamic\nmeta-data\nuser-data",
		"/latest/":                                                                                 "dynamic\nmeta-data\nuser-data",
		"/latest/meta-data/":                                                                       "ami-id\nami-launch-index\nami-manifest-path\nblock-device-mapping/\nevents/\nhostname\niam/\ninstance-action\ninstance-id\ninstance-life-cycle\ninstance-type\nlocal-hostname\nlocal-ipv4\nmac\nmetrics/\nnetwork/\nplacement/\nprofile\npublic-hostname\npublic-ipv4\npublic-keys/\nreservation-id\nsecurity-groups\nservices/\nsystem",
		"/latest/meta-data/instance-id":                                                            machineID,
		"/2021-03-23/meta-data/instance-type":                                                      "m5.large",
		"/latest/meta-data/hostname":                                                               "ip-10-0-0-4.eu-west-1.compute.internal",
		"/latest/meta-data/security-groups":                                                        "nodes\nextra",
		"/latest/meta-data/public-ipv4":                                                            "198.18.1.7",
		"/latest/meta-data/public-hostname":                                                        "ec2-198-18-1-7.eu-west-1.compute.amazonaws.com",
		"/latest/meta-data/placement/":                                                             "availability-zone\navailability-zone-id\nregion",
		"/latest/meta-data/placement/availability-zone-id":                                         "euw1-aza",
		"/latest/meta-data/services/domain":                                                        "amazonaws.com",
		"/latest/meta-data/block-device-mapping/":                                                  "ami\nroot",
		"/latest/meta-data/block-device-mapping/root":                                              "/dev/xvda",
		"/latest/meta-data/public-keys/":                                                           "0=mine",
		"/latest/meta-data/public-keys/0/":                                                         "openssh-key",
		"/latest/meta-data/public-keys/0/openssh-key":                                              "ssh-ed25519 AAAA mine",
		"/latest/meta-data/network/interfaces/macs/":                                               "0a:00:00:00:00:01/\n0a:00:00:00:00:02/",
		"/latest/meta-data/network/interfaces/macs/0a:00:00:00:00:01":                              "device-number\ninterface-id\nipv4-associations/\nlocal-hostname\nlocal-ipv4s\nmac\nnetwork-card\nowner-id\npublic-hostname\npublic-ipv4s\nsecurity-group-ids\nsecurity-groups\nsubnet-id\nsubnet-ipv4-cidr-block\nvpc-id\nvpc-ipv4-cidr-block\nvpc-ipv4-cidr-blocks",
		"/latest/meta-data/network/interfaces/macs/0a:00:00:00:00:01/local-ipv4s":                  "10.0.0.4\n10.0.0.20",
		"/latest/meta-data/network/interfaces/macs/0a:00:00:00:00:02/ipv4-prefix":                  "10.0.0.32/28",
		"/latest/meta-data/network/interfaces/macs/0a:00:00:00:00:02/device-number":                "1",
		"/latest/meta-data/network/interfaces/macs/0a:00:00:00:00:01/vpc-ipv4-cidr-blocks":         "10.0.0.0/16\n100.64.0.0/16",
		"/latest/meta-data/network/interfaces/macs/0a:00:00:00:00:01/ipv4-associations/198.18.1.7": "10.0.0.4",
		"/latest/meta-data/iam/":                                                                   "info\nsecurity-credentials/",
		"/latest/meta-data/iam/security-credentials/":                                              "NodeRole",
		"/latest/user-data":                                                                        "#!/bin/sh\n\x00",
		"/latest/dynamic/":                                                                         "instance-identity/",
		"/latest/dynamic/instance-identity/":                                                       "document\npkcs7\nrsa2048\nsignature",
	} {
		if r := w.do(http.MethodGet, path); r.status != 200 || r.body != want {
			t.Errorf("%s: %d\n%s\nwant\n%s", path, r.status, r.body, want)
		}
	}
	for _, path := range []string{
		"/latest/meta-data/nothing", "/latest/meta-data/instance-id/", "/latest/meta-data/instance-id/x",
		"/1999-01-01/meta-data/", "/latest/meta-data/tags/", "/latest/meta-data/spot/instance-action",
		"/latest/meta-data/autoscaling/", "/latest/meta-data/network/interfaces/macs/0a:00:00:00:00:01/ipv6s",
		"/latest/meta-data/public-keys/0=mine",
	} {
		if r := w.do(http.MethodGet, path); r.status != 404 || !strings.Contains(r.body, "<h1>404 - Not Found</h1>") ||
			r.header.Get("Content-Type") != "text/html" {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
	if r := w.do(http.MethodGet, "/"); !strings.HasPrefix(r.body, "1.0\n2007-01-19\n") || !strings.HasSuffix(r.body,
		"\nlatest") {
		t.Errorf("versions are %s", r.body)
	}

	w.change(func(i *record.Instance) {
		i.Metadata.InstanceMetadataTags = ec2types.InstanceMetadataTagsStateEnabled
		i.Lifecycle, i.SpotInstanceRequestID, i.SpotInterruption = ec2types.InstanceLifecycleTypeSpot, "sir-1",
			time.Date(2026, 11, 21, 14, 2, 0, 0, time.UTC)
	})
	put(t, record.SpotRequests(w.store), record.EC2Key(account, region, "sir-1"),
		record.SpotRequest{EC2Resource: resource("sir-1"), Behavior: "terminate"})
	for path, want := range map[string]string{
		"/latest/meta-data/tags/instance/":                   "Name\nteam",
		"/latest/meta-data/tags/instance/team":               "a",
		"/latest/meta-data/instance-life-cycle":              "spot",
		"/latest/meta-data/spot/instance-action":             `{"action":"terminate","time":"2026-11-21T14:02:00Z"}`,
		"/latest/meta-data/spot/termination-time":            "2026-11-21T14:02:00Z",
		"/latest/meta-data/events/recommendations/rebalance": `{"noticeTime":"2026-11-21T14:00:00Z"}`,
	} {
		if r := w.do(http.MethodGet, path); r.status != 200 || r.body != want {
			t.Errorf("%s: %d %s, want %s", path, r.status, r.body, want)
		}
	}
}

func TestTokens(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const ttl, name, id = "X-aws-ec2-metadata-token-ttl-seconds", "X-aws-ec2-metadata-token",
		"/latest/meta-data/instance-id"
	token := w.do(http.MethodPut, tokenPath, ttl, "60")
	if token.status != 200 || len(token.body) != 56 || token.header.Get(ttl) != "60" {
		t.Fatalf("token: %+v", token)
	}
	if r := w.do(http.MethodGet, id, name, token.body); r.status != 200 || r.body != machineID ||
		r.header.Get(ttl) != "60" {
		t.Errorf("with a token: %+v", r)
	}
	for what, c := range map[string]struct {
		method, path string
		header       []string
		want         int
	}{
		"no lifetime":             {http.MethodPut, tokenPath, nil, 400},
		"a lifetime of nothing":   {http.MethodPut, tokenPath, []string{ttl, "0"}, 400},
		"too long":                {http.MethodPut, tokenPath, []string{ttl, "21601"}, 400},
		"no number":               {http.MethodPut, tokenPath, []string{ttl, "an hour"}, 400},
		"through a proxy":         {http.MethodPut, tokenPath, []string{ttl, "60", "X-Forwarded-For", "10.1.1.1"}, 403},
		"another PUT":             {http.MethodPut, id, []string{ttl, "60"}, 405},
		"a POST":                  {http.MethodPost, id, nil, 405},
		"a made-up token":         {http.MethodGet, id, []string{name, "AQAAAAAA"}, 401},
		"an altered token":        {http.MethodGet, id, []string{name, "B" + token.body[1:]}, 401},
		"version 1":               {http.MethodGet, id, nil, 200},
		"version 1, to no avail":  {http.MethodGet, "/latest/meta-data/x", nil, 404},
		"the token is not a path": {http.MethodGet, tokenPath, nil, 404},
	} {
		if r := w.do(c.method, c.path, c.header...); r.status != c.want {
			t.Errorf("%s: %d, want %d", what, r.status, c.want)
		}
	}

	// Another daemon honors it, until it expires; no other instance may use it.
	again := w.service()
	if left, err := again.secret.verifyToken(token.body, machineID, w.clock.Now().Unix()+50); err != nil || left != 10 {
		t.Errorf("after a restart: %d, %v", left, err)
	}
	if _, err := again.secret.verifyToken(token.body, "i-another", w.clock.Now().Unix()); err == nil {
		t.Error("another instance may use the token")
	}
	w.clock.SetTime(w.clock.Now().Add(time.Minute))
	if r := w.do(http.MethodGet, id, name, token.body); r.status != 401 || !strings.Contains(r.body,
		"401 - Unauthorized") {
		t.Errorf("with an expired token: %+v", r)
	}

	w.change(func(i *record.Instance) { i.Metadata.HTTPTokens = ec2types.HttpTokensStateRequired })
	if r := w.do(http.MethodGet, id); r.status != 401 {
		t.Errorf("version 1 where tokens are required: %d", r.status)
	}
	token = w.do(http.MethodPut, tokenPath, ttl, "21600")
	if r := w.do(http.MethodGet, id, name, token.body); r.status != 200 {
		t.Errorf("version 2 where tokens are required: %d", r.status)
	}
	w.change(func(i *record.Instance) { i.Metadata.HTTPEndpoint = ec2types.InstanceMetadataEndpointStateDisabled })
	for _, r := range []reply{w.do(http.MethodPut, tokenPath, ttl, "60"), w.do(http.MethodGet, id, name, token.body)} {
		if r.status != 403 {
			t.Errorf("where the endpoint is disabled: %d", r.status)
		}
	}
}

func TestTheHopLimitKeepsTokensFromPods(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pod := w.client("pod", "")
	header := []string{"X-aws-ec2-metadata-token-ttl-seconds", "60"}
	// Who is known by an address of the instance may read with version 1, which has no limit.
	if r, err := w.ask(pod, http.MethodGet, "/latest/meta-data/instance-id"); err != nil || r.body != machineID {
		t.Fatalf("version 1 from a pod: %+v, %v", r, err)
	}
	impatient := w.client("pod", "")
	impatient.Timeout = time.Second // what does not come at once never does
	if r, err := w.ask(impatient, http.MethodPut, tokenPath, header...); err == nil {
		t.Errorf("a token has crossed two hops: %+v", r)
	}
	// A request behind it on the connection must not lift the limit: what is not acknowledged is sent again.
	if got := w.pipelined("pod", "PUT "+tokenPath+
		" HTTP/1.1\r\nHost: x\r\nX-aws-ec2-metadata-token-ttl-seconds: 60\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n"); got != "" {
		t.Errorf("with another request behind its own, a token has crossed two hops: %q", got)
	}
	if r := w.do(http.MethodPut, tokenPath, header...); r.status != 200 {
		t.Errorf("a token for the machine itself: %d", r.status)
	}
	w.change(func(i *record.Instance) { i.Metadata.HTTPPutResponseHopLimit = 2 })
	if r, err := w.ask(pod, http.MethodPut, tokenPath, header...); err != nil || r.status != 200 {
		t.Errorf("with a limit of two hops: %+v, %v", r, err)
	}
}

func TestAnAddressThatMovesIsNobodys(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.moving.Store(true)
	if r := w.do(http.MethodGet, "/latest/meta-data/instance-id"); r.status != http.StatusServiceUnavailable {
		t.Errorf("while the address moves: %+v", r)
	}
	w.moving.Store(false)
	if r := w.do(http.MethodGet, "/latest/meta-data/instance-id"); r.status != http.StatusOK || r.body != machineID {
		t.Errorf("after it has moved: %+v", r)
	}
}

func TestWhoAsksIsKnownByItsAddress(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.configure(filepath.Join(w.dir, "machine"), "lo", "10.0.0.33/32") // out of the delegated prefix
	w.configure(filepath.Join(w.dir, "machine"), "lo", "10.0.0.99/32") // nobody's
	if r, err := w.ask(w.client("machine", "10.0.0.33"), http.MethodGet, "/latest/meta-data/instance-id"); err != nil ||
		r.body != machineID {
		t.Errorf("from an address of a prefix: %+v, %v", r, err)
	}
	if r, err := w.ask(w.client("machine", "10.0.0.99"), http.MethodGet, "/latest/meta-data/instance-id"); err != nil ||
		r.status != 404 {
		t.Errorf("from an address of nobody: %+v, %v", r, err)
	}
}

func TestCredentialsOfTheRole(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const path = "/latest/meta-data/iam/security-credentials/NodeRole"
	read := func(path string) (d says) {
		t.Helper()
		r := w.do(http.MethodGet, path)
		if err := json.Unmarshal([]byte(r.body), &d); err != nil || r.status != 200 {
			t.Fatalf("%s: %+v: %v", path, r, err)
		}
		return d
	}
	if d := read(path); d.Code != "Success" || d.Type != "AWS-HMAC" || d.AccessKeyID != "ASIANodeRole" ||
		d.SecretAccessKey != "secret" || d.Token != "token" || d.Expiration != "2026-11-21T15:00:00Z" ||
		d.LastUpdated != "2026-11-21T14:00:00Z" {
		t.Errorf("credentials are %+v", d)
	}
	read(path)
	if w.asked != 1 {
		t.Errorf("credentials were made %d times", w.asked)
	}
	// Fresh ones before the end; those at hand while there can be no others.
	w.clock.SetTime(w.clock.Now().Add(46 * time.Minute))
	w.mu.Lock()
	works := w.credentials
	w.credentials = func(string) (aws.Credentials, error) { return aws.Credentials{}, errors.New("no") }
	w.mu.Unlock()
	if d := read(path); d.Code != "Success" || d.Expiration != "2026-11-21T15:00:00Z" {
		t.Errorf("credentials are %+v", d)
	}
	w.mu.Lock()
	w.credentials = works
	w.mu.Unlock()
	if d := read(path); d.Expiration != "2026-11-21T15:46:00Z" {
		t.Errorf("credentials are %+v", d)
	}
	if d := read("/latest/meta-data/iam/info"); d.Code != "Success" ||
		d.InstanceProfileARN != "arn:aws:iam::111122223333:instance-profile/nodes" || d.InstanceProfileID != "AIPA1" {
		t.Errorf("info is %+v", d)
	}

	// EC2 may not assume the role.
	w.clock.SetTime(w.clock.Now().Add(2 * time.Hour))
	w.mu.Lock()
	w.credentials = func(string) (aws.Credentials, error) { return aws.Credentials{}, errors.New("no") }
	w.mu.Unlock()
	if d := read(path); d.Code != "AssumeRoleUnauthorizedAccess" || !strings.HasPrefix(d.Message,
		"EC2 cannot assume the role NodeRole.") || d.AccessKeyID != "" {
		t.Errorf("credentials are %+v", d)
	}

	// The profile has no role; it was made again; there is none.
	profiles, key := record.InstanceProfiles(w.store), record.InstanceProfileKey(account, "nodes")
	put(t, profiles, key, record.InstanceProfile{Account: account, Name: "nodes", Path: "/", ID: "AIPA1"})
	if r := w.do(http.MethodGet, path); r.status != 404 {
		t.Errorf("without a role: %+v", r)
	}
	put(t, profiles, key, record.InstanceProfile{Account: account, Name: "nodes", Path: "/", ID: "AIPA2",
		Role: "NodeRole"})
	if d := read("/latest/meta-data/iam/info"); d.Code != "InstanceProfileNotFound" {
		t.Errorf("info is %+v", d)
	}
	w.change(func(i *record.Instance) { i.InstanceProfileARN, i.InstanceProfileID = "", "" })
	if r := w.do(http.MethodGet, "/latest/meta-data/iam/info"); r.status != 404 {
		t.Errorf("without a profile: %+v", r)
	}
}

func TestTheIdentityDocumentIsSigned(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	document := w.do(http.MethodGet, "/latest/dynamic/instance-identity/document").body
	want := `{
  "accountId": "111122223333",
  "architecture": "x86_64",
  "availabilityZone": "eu-west-1a",
  "billingProducts": null,
  "devpayProductCodes": null,
  "marketplaceProductCodes": null,
  "imageId": "ami-1",
  "instanceId": "i-0123456789abcdef0",
  "instanceType": "m5.large",
  "kernelId": null,
  "pendingTime": "2026-11-21T13:59:58Z",
  "privateIp": "10.0.0.4",
  "ramdiskId": null,
  "region": "eu-west-1",
  "version": "2017-09-30"
}`
	if document != want {
		t.Errorf("document is %s", document)
	}
	openssl, err := exec.LookPath("openssl")
	if err != nil {
		t.Skip("openssl, which is to verify the signatures, is not installed")
	}
	dir := t.TempDir()
	der, err := os.ReadFile(filepath.Join(w.dir, "metadata/identity.crt"))
	if errors.Is(err, fs.ErrNotExist) {
		w.do(http.MethodGet, "/latest/dynamic/instance-identity/signature")
		der, err = os.ReadFile(filepath.Join(w.dir, "metadata/identity.crt"))
	}
	if err != nil {
		t.Fatal(err)
	}
	file := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	certificate := file("cert", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	run := func(args ...string) string {
		t.Helper()
		out, err := exec.Command(openssl, args...).CombinedOutput()
		if err != nil {
			t.Errorf("openssl %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	signature, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(w.do(http.MethodGet,
		"/latest/dynamic/instance-identity/signature").body, "\n", ""))
	if err != nil {
		t.Fatal(err)
	}
	public := file("public", []byte(run("x509", "-pubkey", "-noout", "-in", certificate)))
	run("dgst", "-sha256", "-verify", public, "-signature", file("signature", signature),
		file("document", []byte(document)))
	// As AWS says how to do it.
	message := "-----BEGIN PKCS7-----\n" + w.do(http.MethodGet, "/latest/dynamic/instance-identity/rsa2048").body +
		"\n-----END PKCS7-----\n"
	if out := run("smime", "-verify", "-inform", "PEM", "-in", file("rsa2048", []byte(message)), "-certfile",
		certificate, "-noverify"); !strings.Contains(out, machineID) {
		t.Errorf("openssl says %s", out)
	}
}

func TestTheStateThatAnAutoScalingGroupIsAbout(t *testing.T) {
	t.Parallel()
	for state, want := range map[string]string{
		"Pending": "InService", "Pending:Wait": "InService", "InService": "InService", "Terminating:Wait": "Terminated",
		"Terminating": "Terminated", "Standby": "Standby",
		"EnteringStandby": "Standby", "Detaching": "Detached",
	} {
		if got := targetState(state); got != want {
			t.Errorf("%s leads to %s, want %s", state, got, want)
		}
	}
}
