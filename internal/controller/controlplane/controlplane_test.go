package controlplane

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/uuid"
	"k8s.io/client-go/rest"

	"github.com/coracle-eks/coracle/internal/etcd"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/host/endpoint"
	"github.com/coracle-eks/coracle/internal/kube/client"
	"github.com/coracle-eks/coracle/internal/process"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/testenv"
	"github.com/coracle-eks/coracle/internal/upstream"
)

const (
	account = "111122223333"
	region  = "us-east-1"
)

// daemon is as much of the daemon as a control plane needs, over a directory that outlives it.
type daemon struct {
	testing.TB
	dir        string
	owner      string
	etcd       *etcd.Connection
	store      *store.Store
	processes  *process.Supervisor
	ec2        fakeEC2
	controller *Controller
	stop       func()
}

// newDataDirectory returns what outlives daemons: the directory, with an etcd in it, and the owner of its processes.
func newDataDirectory(t testing.TB) (dir, owner string) {
	t.Helper()
	testenv.NeedsSetup(t)
	dir = t.TempDir()
	owner = "cp-" + uuid.NewString()
	t.Cleanup(func() {
		if _, err := process.Kill(owner); err != nil {
			t.Error(err)
		}
	})
	serving, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	if _, err := etcd.Prepare(filepath.Join(dir, "etcd")); err != nil {
		t.Fatal(err)
	}
	go func() { ended <- etcd.Serve(serving, filepath.Join(dir, "etcd")) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return dir, owner
}

// bundles is the directory that "make bundles" writes.
const bundles = "../../../bin/bundles"

func needBundle(t testing.TB, minors ...string) {
	t.Helper()
	for _, minor := range minors {
		if _, err := upstream.OpenBundles(upstream.Options{Dir: bundles}).Find(minor); err != nil {
			t.Fatalf("%v: run \"make bundles\"", err)
		}
	}
}

func absoluteBundles() Bundles {
	dir, err := filepath.Abs(bundles)
	if err != nil {
		panic(err)
	}
	return upstream.OpenBundles(upstream.Options{Dir: dir}) // of whatever build
}

// start starts a daemon on a data directory.
func start(t testing.TB, dir, owner string, adjust func(*Options)) *daemon {
	t.Helper()
	d, err := open(dir, owner, slog.New(slog.NewTextHandler(t.Output(), nil)), true, adjust)
	if err != nil {
		t.Fatal(err)
	}
	d.TB = t
	t.Cleanup(d.stop)
	return d
}

func open(dir, owner string, log *slog.Logger, work bool, adjust func(*Options)) (*daemon, error) {
	d := &daemon{dir: dir, owner: owner, ec2: newFakeEC2(filepath.Join(dir, "ec2.json"))}
	e, err := etcd.Prepare(filepath.Join(dir, "etcd"))
	if err != nil {
		return nil, err
	}
	connecting, connected := context.WithTimeout(context.Background(), eventually.Limit)
	defer connected()
	if d.etcd, err = e.Connect(connecting); err != nil {
		return nil, err
	}
	if d.store, err = store.Open(connecting, d.etcd.Client, store.Options{Log: log}); err != nil {
		return nil, err
	}
	var mu sync.Mutex
	told := map[int]func(process.Event){}
	d.processes, err = process.Open(process.Options{Identity: process.Identity{Owner: owner,
		Key: []byte("key of " + owner)}, Log: log, Events: func(e process.Event) {
		mu.Lock()
		defer mu.Unlock()
		for _, f := range told {
			f(e)
		}
	}})
	if err != nil {
		return nil, err
	}
	o := Options{
		Store: d.store, Etcd: d.etcd, Dir: filepath.Join(dir, "clusters"), Host: d.processes,
		Bundles: absoluteBundles(),
		EC2:     func(string, string) EC2 { return d.ec2 },
		Subscribe: func(f func(process.Event)) func() {
			mu.Lock()
			defer mu.Unlock()
			n := len(told)
			told[n] = f
			return func() {
				mu.Lock()
				defer mu.Unlock()
				delete(told, n)
			}
		},
		Log: log,
	}
	o.Endpoints, err = endpoint.New(endpoint.Options{
		Store: d.store, Host: d.processes, Owner: owner, Dir: filepath.Join(dir, "endpoint"),
		LogFile: filepath.Join(dir, "endpoint.log"), Program: os.Args[0], Log: log,
	})
	if err != nil {
		return nil, err
	}
	if adjust != nil {
		adjust(&o)
	}
	d.controller = New(o)
	controllers := append(o.Endpoints.(*endpoint.Controller).Controllers(), d.controller.Controller())
	running, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		if !work {
			ended <- nil
			return
		}
		ended <- reconcile.Run(running, log, controllers...)
	}()
	var once sync.Once
	d.stop = func() {
		once.Do(func() {
			cancel()
			err := <-ended
			d.processes.Close()
			d.store.Close()
			if err = errors.Join(err, d.etcd.Close()); err != nil {
				d.Error(err)
			}
		})
	}
	return d, nil
}

func newCluster(name, version string) record.Cluster {
	return record.Cluster{
		Account: account, Region: region, Name: name, ID: strings.ToUpper(strings.ReplaceAll(uuid.NewString(), "-",
			"")),
		CreatedAt: time.Now(), Version: version, VPCID: "vpc-1", SubnetIDs: []string{"subnet-a", "subnet-b"},
		EndpointPublicAccess: true, ServiceIPv4CIDR: "10.100.0.0/16", IPFamily: ekstypes.IpFamilyIpv4,
		AuthenticationMode: ekstypes.AuthenticationModeApiAndConfigMap,
	}
}

func (d *daemon) create(c record.Cluster) record.Cluster {
	d.Helper()
	if _, err := record.Clusters(d.store).Create(d.Context(), c.Key(), c); err != nil {
		d.Fatal(err)
	}
	return c
}

// update changes what is wanted of a cluster as the EKS API does.
func (d *daemon) update(c record.Cluster, u record.Update, change func(*record.Cluster)) (id string) {
	d.Helper()
	row, err := record.Clusters(d.store).Copy(d.Context(), c.Key())
	if err != nil {
		d.Fatal(err)
	}
	change(&row.Value)
	u.ID, u.Cluster, u.ClusterID, u.Status = uuid.NewString(), c.Name, c.ID, ekstypes.UpdateStatusInProgress
	row.Value.LastUpdateID = u.ID
	if err := d.store.Txn(d.Context(), record.Clusters(d.store).UpdateOp(row),
		record.Updates(d.store).CreateOp(record.UpdateKey(c.Account, c.Region, c.Name, u.ID), u)); err != nil {
		d.Fatal(err)
	}
	return u.ID
}

func (d *daemon) updated(c record.Cluster, id string) record.Update {
	d.Helper()
	row, err := record.Updates(d.store).Get(d.Context(), record.UpdateKey(c.Account, c.Region, c.Name, id))
	if err != nil {
		d.Fatal(err)
	}
	return row.Value
}

func (d *daemon) plane(c record.Cluster) record.ControlPlane {
	row, err := record.ControlPlanes(d.store).Get(d.Context(), c.Key())
	if errors.Is(err, store.ErrNotFound) {
		return record.ControlPlane{}
	}
	if err != nil {
		d.Fatal(err)
	}
	return row.Value
}

// until waits, and says how long it took, for benchmarks and those who read logs.
func (d *daemon) until(what string, done func() bool) time.Duration {
	d.Helper()
	began := time.Now()
	err := eventually.Try(2*time.Millisecond, func() error {
		if !done() {
			return errors.New("it is not so")
		}
		return nil
	})
	if err != nil {
		for _, s := range d.processes.List("") {
			d.Logf("%+v", s)
		}
		d.dumpLogs()
		d.Fatalf("%s: %v", what, err)
	}
	return time.Since(began)
}

func (d *daemon) remove(c record.Cluster) {
	d.Helper()
	if _, err := record.Clusters(d.store).Modify(d.Context(), c.Key(),
		func(c *record.Cluster) error { c.Deleting = true; return nil }); err != nil {
		d.Fatal(err)
	}
	d.until("the row to go", func() bool {
		_, err := record.Clusters(d.store).Get(d.Context(), c.Key())
		return err != nil
	})
}

func (d *daemon) dumpLogs() {
	logs, _ := filepath.Glob(filepath.Join(d.dir, "clusters", "*", "log", "*.log"))
	for _, l := range logs {
		if strings.Contains(l, "audit") {
			continue
		}
		b, _ := os.ReadFile(l)
		lines := strings.Split(strings.TrimSpace(string(b)), "\n")
		d.Logf("%s:\n%s", l, strings.Join(lines[max(0, len(lines)-15):], "\n"))
	}
}

// client returns a client of the cluster as the given user.
func (d *daemon) client(c record.Cluster, user string, groups ...string) (*http.Client, string) {
	d.Helper()
	config, err := d.controller.Config(d.Context(), c, user, groups...)
	if err != nil {
		d.Fatal(err)
	}
	clients, err := client.New(config, "", "")
	if err != nil {
		d.Fatal(err)
	}
	d.Cleanup(clients.Close)
	return clients.HTTP, config.Host
}

func anonymousClient(t *testing.T, seen record.ControlPlane) *http.Client {
	t.Helper()
	clients, err := client.New(&rest.Config{Host: seen.Endpoint,
		TLSClientConfig: rest.TLSClientConfig{CAData: seen.CertificateAuthority}}, "", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(clients.Close)
	return clients.HTTP
}
