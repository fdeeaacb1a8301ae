//go:build linux

package network

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"os/exec"
	"sync"
	"testing"
	"time"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/host/usernamespace"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/store/storetest"
	"github.com/coracle-eks/coracle/internal/testenv"
)

const (
	account = "111122223333"
	region  = "eu-west-1"
)

// fixture is a network made from rows, whose packets tests send.
type fixture struct {
	testing.TB
	*Network
	store *store.Store
	owner string
	stop  func() // ends the controllers; they end with the test anyway
	// Where the store is, for others.
	endpoints []string
	prefix    string
}

// newFixture runs a network over an empty store until the test ends.
func newFixture(t testing.TB) *fixture {
	t.Helper()
	testenv.NeedsRoot(t)
	w := &fixture{TB: t, owner: fmt.Sprintf("%016x", rand.Uint64()), prefix: storetest.Prefix(t)}
	client := storetest.Client(t)
	w.endpoints = client.Endpoints()
	var err error
	if w.store, err = store.Open(t.Context(), client, store.Options{Prefix: w.prefix,
		Log: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.store.Close)
	public, err := ChoosePublicRange(w.Context(), w.owner, w.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError}))
	w.Network, err = New(Options{Store: w.store, Owner: w.owner, PublicRange: public, Region: region, Log: log,
		UserNamespaces: usernamespace.Check(w.TempDir()) == nil})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := Remove(w.owner); err != nil {
			t.Errorf("remove: %v", err)
		}
	})
	w.stop = w.start()
	return w
}

// start runs the controllers until the test ends or stop is called.
func (w *fixture) start() (stop func()) {
	ctx, cancel := context.WithCancel(w.Context())
	done := make(chan error, 1)
	log := slog.New(slog.NewTextHandler(w.Output(), &slog.HandlerOptions{Level: slog.LevelError}))
	go func() { done <- reconcile.Run(ctx, log, w.Controllers()...) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			w.Errorf("run: %v", err)
		}
	})
	w.Cleanup(stop)
	return stop
}

func newID(prefix string) string {
	return fmt.Sprintf("%s%016x%x", prefix, rand.Uint64(), rand.IntN(16))
}

func resource(prefix string) record.EC2Resource {
	return record.EC2Resource{Account: account, Region: region, ID: newID(prefix), CreatedAt: time.Now()}
}

func put[T interface{ Key() string }](w *fixture, table func(*store.Store) store.Table[T], row T) T {
	w.Helper()
	if _, err := table(w.store).Put(w.Context(), row.Key(), row); err != nil {
		w.Fatal(err)
	}
	return row
}

func change[T interface{ Key() string }](w *fixture, table func(*store.Store) store.Table[T], row T, f func(*T)) {
	w.Helper()
	if _, err := table(w.store).Modify(w.Context(), row.Key(), func(r *T) error { f(r); return nil }); err != nil {
		w.Fatal(err)
	}
}

func remove[T interface{ Key() string }](w *fixture, table func(*store.Store) store.Table[T], row T) {
	w.Helper()
	if err := w.store.Txn(w.Context(), table(w.store).RemoveOp(row.Key())); err != nil {
		w.Fatal(err)
	}
}

// vpc is a VPC with a main route table and a network ACL that allows everything.
type vpc struct {
	record.VPC
	acl record.NetworkACL
}

func (w *fixture) newVPC(cidrs ...string) vpc {
	w.Helper()
	row := record.VPC{EC2Resource: resource("vpc-")}
	for _, c := range cidrs {
		row.CIDRs = append(row.CIDRs, record.CIDRAssociation{CIDR: c})
	}
	main := put(w, record.RouteTables, record.RouteTable{EC2Resource: resource("rtb-"), VPCID: row.ID})
	row.MainRouteTableID = main.ID
	acl := put(w, record.NetworkACLs, record.NetworkACL{EC2Resource: resource("acl-"), VPCID: row.ID, Default: true,
		Entries: []record.NetworkACLEntry{
			{Number: 100, Egress: true, Protocol: "-1", Action: ec2types.RuleActionAllow, CIDR: "0.0.0.0/0"},
			{Number: 100, Protocol: "-1", Action: ec2types.RuleActionAllow, CIDR: "0.0.0.0/0"},
		}})
	return vpc{put(w, record.VPCs, row), acl}
}

func (w *fixture) newSubnet(v vpc, cidr string) record.Subnet {
	w.Helper()
	return put(w, record.Subnets, record.Subnet{EC2Resource: resource("subnet-"), VPCID: v.ID, CIDR: cidr,
		AvailabilityZone: "eu-west-1a", NetworkACLID: v.acl.ID})
}

func (w *fixture) newGroup(v vpc, rules ...record.SecurityGroupRule) record.SecurityGroup {
	w.Helper()
	return put(w, record.SecurityGroups, record.SecurityGroup{EC2Resource: resource("sg-"), VPCID: v.ID, Rules: rules})
}

// everything returns a rule that allows all traffic in one direction.
func everything(egress bool) record.SecurityGroupRule {
	return record.SecurityGroupRule{Egress: egress, Protocol: "-1", FromPort: -1, ToPort: -1, CIDRIPv4: "0.0.0.0/0"}
}

func (w *fixture) newRouteTable(v vpc, routes ...record.Route) record.RouteTable {
	w.Helper()
	return put(w, record.RouteTables, record.RouteTable{EC2Resource: resource("rtb-"), VPCID: v.ID, Routes: routes})
}

// newENI creates an ENI attached to a holder: "" makes a new instance.
func (w *fixture) newENI(s record.Subnet, holder string, index int32, groups []record.SecurityGroup,
	addresses ...string) record.NetworkInterface {
	w.Helper()
	if holder == "" {
		holder = newID("i-")
	}
	row := record.NetworkInterface{
		EC2Resource: resource("eni-"), VPCID: s.VPCID, SubnetID: s.ID, SourceDestCheck: true, PrivateIPs: addresses,
		MACAddress: net.HardwareAddr{0x06, byte(rand.IntN(256)), byte(rand.IntN(256)), byte(rand.IntN(256)),
			byte(rand.IntN(256)), byte(rand.IntN(256))}.String(),
		Attachment: &record.NetworkInterfaceAttachment{ID: newID("eni-attach-"), InstanceID: holder,
			InstanceOwnerID: account, DeviceIndex: index},
	}
	for _, g := range groups {
		row.SecurityGroupIDs = append(row.SecurityGroupIDs, g.ID)
	}
	return put(w, record.NetworkInterfaces, row)
}

// newInternetGateway attaches an internet gateway and makes it the default route of the given tables.
func (w *fixture) newInternetGateway(v vpc) record.InternetGateway {
	w.Helper()
	return put(w, record.InternetGateways, record.InternetGateway{EC2Resource: resource("igw-"), VPCID: v.ID})
}

// publicAddress returns the n-th public address of EC2.
func (w *fixture) publicAddress(n int) string { return nthAddress(w.o.PublicRange, 256+n).String() }

func (w *fixture) newAddress(public string, eni record.NetworkInterface) record.Address {
	w.Helper()
	return put(w, record.Addresses, record.Address{EC2Resource: resource("eipalloc-"), PublicIP: public,
		AssociationID: newID("eipassoc-"), NetworkInterfaceID: eni.ID, PrivateIPAddress: eni.PrivateIPs[0]})
}

func defaultRoute(target string) record.Route {
	return record.Route{Destination: "0.0.0.0/0", Target: target}
}

// plugged waits until the holders are plugged.
func (w *fixture) plugged(enis ...record.NetworkInterface) {
	w.Helper()
	for _, e := range enis {
		eventually.Nil(w, "plug "+e.Attachment.InstanceID, func() error {
			ok, err := w.Plugged(e.Attachment.InstanceID)
			if err == nil && !ok {
				err = errors.New("not plugged")
			}
			return err
		})
	}
}

// waitForRules waits until the VPC's rules are those of the store.
func (w *fixture) waitForRules(v vpc) {
	w.Helper()
	if _, err := w.reconcileVPC(w.Context(), v.Key()); err != nil {
		w.Fatal(err)
	}
}

// patience returns the time to wait for an expected event, or for an unexpected one. A link that has just come up may
// lose its first packet.
func patience(wanted bool) time.Duration {
	if wanted {
		return eventually.Limit
	}
	return 400 * time.Millisecond
}

// serve answers TCP connections with the address that they come from.
func (w *fixture) serve(holder, address string) {
	w.Helper()
	var l net.Listener
	eventually.Nil(w, "listen on "+address, func() (err error) {
		l, err = w.Listen(w.Context(), holder, "tcp", address)
		return err
	})
	w.Cleanup(func() { l.Close() })
	go answer(l)
}

func answer(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			io.WriteString(c, netip.MustParseAddrPort(c.RemoteAddr().String()).Addr().String()+"\n")
			io.Copy(c, c)
			c.Close()
		}()
	}
}

// call connects from a holder and returns the address of the client that the server reports.
func (w *fixture) call(holder, source, address string) (seen string, err error) {
	return callFrom(w.Context(), w.Namespace(holder), source, address, true)
}

func callFrom(ctx context.Context, path, source, address string, wanted bool) (seen string, err error) {
	err = In(path, func() error {
		d := net.Dialer{Timeout: patience(wanted), FallbackDelay: -1}
		if source != "" {
			d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(source)}
		}
		c, err := d.DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(patience(wanted)))
		_, err = fmt.Fscanln(c, &seen)
		return err
	})
	return seen, err
}

// reaches fails the test unless the call's success is as wanted.
func (w *fixture) reaches(holder, address string, want bool) {
	w.Helper()
	if _, err := callFrom(w.Context(), w.Namespace(holder), "", address, want); (err == nil) != want {
		w.Errorf("%s to %s: got %v, want success %v", holder, address, err, want)
	}
}

func instanceOf(e record.NetworkInterface) string { return e.Attachment.InstanceID }

// run runs a command in a namespace and is its output.
func (w *fixture) run(name string, argv ...string) (out string) {
	w.Helper()
	err := w.In(name, func() (err error) {
		b, err := exec.CommandContext(w.Context(), argv[0], argv[1:]...).CombinedOutput()
		out = string(b)
		return err
	})
	if err != nil {
		w.Fatalf("%v: %v\n%s", argv, err, out)
	}
	return out
}

func command(argv ...string) error {
	if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w: %s", argv, err, out)
	}
	return nil
}

// inside does something to a namespace.
func (w *fixture) inside(name string, f func(*namespace) error) {
	w.Helper()
	s, err := openHandle(w.Namespace(name))
	if err == nil {
		defer s.close()
		err = f(s)
	}
	if err != nil {
		w.Fatal(err)
	}
}

func dialer(wanted bool) *net.Dialer { return &net.Dialer{Timeout: patience(wanted)} }

// listenOnHost listens in the namespace of the host and is the listener's address.
func listenOnHost(t testing.TB, address string) string {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

// publicServer starts a server on the internet that answers like [fixture.serve], and returns its address.
func (w *fixture) publicServer() string {
	w.Helper()
	address := netip.AddrPortFrom(nthAddress(w.o.PublicRange, 20), 80).String()
	w.serve(InternetNamespace, address)
	return address
}

func hostOf(address string) string { return netip.MustParseAddrPort(address).Addr().String() }
