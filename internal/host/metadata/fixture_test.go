//go:build linux

package metadata

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
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

// fixture is a VPC as far as metadata goes: a router that has the address of the service, a machine, and a pod behind
// the machine.
//
//	router 169.254.169.254, 10.0.0.1 ── 10.0.0.4 machine ── pod 10.0.0.20
type fixture struct {
	t       testing.TB
	dir     string
	store   *store.Store
	clock   *clocktesting.FakePassiveClock
	changed chan string
	tls     *tls.Config // of the service
	moving  atomic.Bool // addresses are not yet whose the store says they are

	mu          sync.Mutex
	credentials func(role string) (aws.Credentials, error)
	asked       int
}

func (w *fixture) Listen(ctx context.Context, namespace, network, address string) (l net.Listener, err error) {
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

func (w *fixture) Identity(namespace string) (uint64, error) {
	var s unix.Stat_t
	if err := unix.Stat(filepath.Join(w.dir, namespace), &s); err != nil {
		return 0, fmt.Errorf("%s: %w", namespace, fs.ErrNotExist)
	}
	return s.Ino, nil
}

func (w *fixture) Carries(string, netip.Addr, string) bool { return !w.moving.Load() }

func (w *fixture) RouterSource() reconcile.Source { return reconcile.Channel(w.changed) }

// namespace makes a network namespace.
func (w *fixture) namespace(name string) string {
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
func (w *fixture) cable(a, aName, b, bName string) {
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
func (w *fixture) configure(path, link, address string, routes ...string) {
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

// newRows returns a fixture that has records only.
func newRows(t testing.TB) *fixture {
	w := &fixture{t: t, dir: t.TempDir(), store: storetest.New(t), changed: make(chan string, 1),
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

func newFixture(t testing.TB) *fixture {
	machinetest.Owner(t) // root only
	w := newRows(t)
	w.start()
	return w
}

// start has the service run in a network that it makes.
func (w *fixture) start() *Service {
	t := w.t
	t.Helper()
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
	return service
}

func (w *fixture) service() *Service {
	return New(Options{
		Store: w.store, Network: w, Dir: filepath.Join(w.dir, "metadata"), Log: slog.New(slog.DiscardHandler),
		Clock: w.clock, TLS: w.tls,
		FargateCredentials: func(_ context.Context, i record.Instance) (aws.Credentials, error) {
			return w.credentials(i.Fargate.RoleARN)
		},
		Credentials: func(_ context.Context, i record.Instance, role string) (aws.Credentials, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.asked++
			return w.credentials(role)
		},
		ZoneID: func(_, zone string) string { return "euw1-az" + zone[len(zone)-1:] },
	})
}

func (w *fixture) change(change func(*record.Instance)) {
	w.t.Helper()
	if _, err := record.Instances(w.store).Modify(context.Background(), record.EC2Key(account, region, machineID),
		func(i *record.Instance) error { change(i); return nil }); err != nil {
		w.t.Fatal(err)
	}
}

// client makes requests from inside a namespace, from a certain address if one is given.
func (w *fixture) client(namespace, from string) *http.Client {
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
func (w *fixture) pipelined(namespace, requests string) string {
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

func (w *fixture) do(method, path string, header ...string) reply {
	w.t.Helper()
	r, err := w.ask(w.client("machine", ""), method, path, header...)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

func (w *fixture) ask(client *http.Client, method, path string, header ...string) (reply, error) {
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
