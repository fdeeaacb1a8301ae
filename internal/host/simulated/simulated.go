// Package simulated stands in for machines on hosts without root, and for thousands of them.
//
// The [Controller] reads Instances and writes their Machines and MachineConsoles, as internal/host/machine does for
// real ones. What is simulated begins below that line:
//
//   - userdata.go reads what the boot scripts of EKS's images would make of the user data: the cluster to join, labels,
//     taints, how many pods. fargate.go does without: the machine of a Fargate pod has none.
//   - kubelet.go is a node. It authenticates with a token of its instance role, which STS and the cluster's
//     authenticator verify, so that a role that is not mapped keeps it out as on AWS; it registers its Node as a
//     kubelet does and renews its lease, each as itself, under the eyes of the Node authorizer and NodeRestriction.
//   - fleet.go has the nodes of one cluster: one connection, one watch of pods, and the queues that bring nodes and
//     pods about.
//   - pods.go plays the stages of pods (stages.yaml) by kwok's library: they run, get ready, complete when a Job owns
//     them, go when they are deleted. Nothing runs in them. kwok's own controllers are not used: they are one user with
//     one client for all nodes, and here each node acts as itself.
//   - addresses.go gives pods addresses of the subnet as the VPC CNI plugin does, by asking EC2 under the node's role,
//     several at a time.
//   - endpoint.go is where an API server finds the kubelets: logs and exec answer that there is nothing to see. It is
//     also the API server's way to everything else, which keeps users of a cluster out of this host's network.
//
// A daemon that starts again finds everything in the store, in EC2 and in the API servers, and goes on.
package simulated

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/sourcegraph/conc"
	"k8s.io/client-go/rest"

	"github.com/coracle-eks/coracle/internal/kube/extensionmetrics"
	"github.com/coracle-eks/coracle/internal/outbound"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// EC2 is the part of the EC2 API that the CNI plugin of a node calls. *ec2.Client implements it.
type EC2 interface {
	AssignPrivateIpAddresses(context.Context, *ec2.AssignPrivateIpAddressesInput,
		...func(*ec2.Options)) (*ec2.AssignPrivateIpAddressesOutput, error)
	AssignIpv6Addresses(context.Context, *ec2.AssignIpv6AddressesInput,
		...func(*ec2.Options)) (*ec2.AssignIpv6AddressesOutput, error)
	CreateNetworkInterface(context.Context, *ec2.CreateNetworkInterfaceInput,
		...func(*ec2.Options)) (*ec2.CreateNetworkInterfaceOutput, error)
	AttachNetworkInterface(context.Context, *ec2.AttachNetworkInterfaceInput,
		...func(*ec2.Options)) (*ec2.AttachNetworkInterfaceOutput, error)
	ModifyNetworkInterfaceAttribute(context.Context, *ec2.ModifyNetworkInterfaceAttributeInput,
		...func(*ec2.Options)) (*ec2.ModifyNetworkInterfaceAttributeOutput, error)
}

// Options configures a Controller. All fields but those marked optional must be set.
type Options struct {
	Store *store.Store
	// Dir holds the sockets at which API servers find kubelets and the rest; without it there are none (optional).
	Dir string
	// Egress admits the addresses outside of the VPC that API servers connect to for users: of webhooks, nodes and
	// Services.
	Egress outbound.Policy
	// Webhooks are the addresses at which API servers find the daemon's own, on this host: "127.0.0.1:20001".
	Webhooks []string
	// Metrics is what serves the metrics of a control plane to its API server; nobody does when nil (optional).
	Metrics func(record.ControlPlane) extensionmetrics.Config
	// Credentials are those of the role of an instance's profile, as its metadata would give them. An error says why
	// there are none.
	Credentials func(ctx context.Context, instance record.Instance) (aws.Credentials, error)
	// EC2 is a client with such credentials.
	EC2 func(region string, credentials aws.CredentialsProvider) EC2
	// Config returns the configuration of a client of a cluster's API server, as the given user. Pods are watched for
	// all nodes as a user of system:masters; nodes use the same configuration without its credentials.
	Config func(ctx context.Context, cluster record.Cluster, user string, groups ...string) (*rest.Config, error)
	Log    *slog.Logger // slog.Default() when nil
	// Heartbeat is the interval at which a node renews its lease; 10 s when 0, as kubelets do.
	Heartbeat time.Duration
}

// Controller simulates machines.
type Controller struct {
	o   Options
	log *slog.Logger

	instances  store.Table[record.Instance]
	machines   store.Table[record.Machine]
	consoles   store.Table[record.MachineConsole]
	clusters   store.Table[record.Cluster]
	planes     store.Table[record.ControlPlane]
	interfaces store.Table[record.NetworkInterface]

	living   context.Context // until the controllers end
	begun    chan struct{}   // closed once living is set
	fleetsUp conc.WaitGroup

	mu        sync.Mutex
	listeners map[string]net.Listener        // by path, of sockets that are not served yet
	fleets    map[string]*fleet              // by cluster ID
	kubelets  map[string]*kubelet            // by instance key, of the running ones that are nodes
	attached  map[string]map[string]struct{} // keys of network interfaces, by the key of their instance
	owner     map[string]string              // key of the instance, by that of the network interface
}

// New returns a Controller, which does nothing until it is run.
func New(o Options) *Controller {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Heartbeat == 0 {
		o.Heartbeat = 10 * time.Second
	}
	return &Controller{
		o: o, log: o.Log,
		instances: record.Instances(o.Store), machines: record.Machines(o.Store),
		consoles: record.MachineConsoles(o.Store),
		clusters: record.Clusters(o.Store), planes: record.ControlPlanes(o.Store),
		interfaces: record.NetworkInterfaces(o.Store),
		begun:      make(chan struct{}),
		listeners:  map[string]net.Listener{},
		fleets:     map[string]*fleet{}, kubelets: map[string]*kubelet{},
		attached: map[string]map[string]struct{}{}, owner: map[string]string{},
	}
}

// Controllers returns the controllers that reconcile.Run runs. Their keys are those of instances.
func (c *Controller) Controllers() []reconcile.Controller {
	return []reconcile.Controller{{
		Name:      "simulated",
		Reconcile: c.Reconcile,
		Sources: []reconcile.Source{
			c.runFleets,
			c.serveSockets,
			c.watchInterfaces,
			reconcile.Table(c.instances, ""),
			reconcile.Table(c.machines, ""), // whose rows may outlive their instances
		},
		Workers:    16,
		MaxBackoff: 10 * time.Second,
	}}
}

// runFleets owns the goroutines of the fleets.
func (c *Controller) runFleets(ctx context.Context, _ func(string)) {
	c.living = ctx
	close(c.begun)
	<-ctx.Done()
	c.fleetsUp.Wait()
}

// watchInterfaces mirrors the network interfaces by instance, so that no look-up lists all of them.
func (c *Controller) watchInterfaces(ctx context.Context, changed func(string)) {
	c.interfaces.Notify(ctx, "", func(key string) {
		row, err := c.interfaces.Get(ctx, key)
		var now string
		if err == nil && row.Value.Attachment != nil && row.Value.Attachment.InstanceID != "" {
			now = record.EC2Key(row.Value.Account, row.Value.Region, row.Value.Attachment.InstanceID)
		}
		c.mu.Lock()
		was := c.owner[key]
		if was != now {
			delete(c.attached[was], key)
			if len(c.attached[was]) == 0 {
				delete(c.attached, was)
			}
			delete(c.owner, key)
			if now != "" {
				c.owner[key] = now
				if c.attached[now] == nil {
					c.attached[now] = map[string]struct{}{}
				}
				c.attached[now][key] = struct{}{}
			}
		}
		c.mu.Unlock()
		if was == "" && now != "" {
			changed(now)
		}
	})
}

// interfacesOf returns the network interfaces of an instance, by device index.
func (c *Controller) interfacesOf(ctx context.Context, instance string) map[int32]record.NetworkInterface {
	c.mu.Lock()
	var keys []string
	for key := range c.attached[instance] {
		keys = append(keys, key)
	}
	c.mu.Unlock()
	found := map[int32]record.NetworkInterface{}
	for _, key := range keys {
		if row, err := c.interfaces.Get(ctx, key); err == nil && row.Value.Attachment != nil {
			found[row.Value.Attachment.DeviceIndex] = row.Value
		}
	}
	return found
}

// Reconcile reconciles the machine of the instance with the given key.
func (c *Controller) Reconcile(ctx context.Context, key string) (reconcile.Result, error) {
	select {
	case <-c.begun:
	case <-ctx.Done():
		return reconcile.Result{}, ctx.Err()
	}
	machine, err := c.machines.Get(ctx, key)
	known := err == nil
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return reconcile.Result{}, err
	}
	row, err := c.instances.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		c.removeNode(key)
		return reconcile.Result{Gone: true}, c.deleteRecords(ctx, key, machine, known)
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	instance := row.Value
	if known && machine.Value.State == ec2types.InstanceStateNameTerminated {
		c.removeNode(key)
		return reconcile.Result{}, nil
	}
	switch instance.Wanted {
	case ec2types.InstanceStateNameTerminated, ec2types.InstanceStateNameStopped:
		c.removeNode(key)
		return reconcile.Result{}, c.observe(ctx, key, instance, func(m *record.Machine) {
			*m = record.Machine{InstanceID: instance.ID, State: instance.Wanted, Boot: instance.Boot,
				LaunchedAt: m.LaunchedAt}
		})
	}
	if !known || machine.Value.State != ec2types.InstanceStateNameRunning || machine.Value.Boot < instance.Boot {
		c.removeNode(key)
		if err := c.recordBoot(ctx, key, instance); err != nil {
			return reconcile.Result{}, err
		}
	}
	return c.joinCluster(ctx, key, instance)
}

// recordBoot records that the machine runs.
func (c *Controller) recordBoot(ctx context.Context, key string, instance record.Instance) error {
	return c.observe(ctx, key, instance, func(m *record.Machine) {
		*m = record.Machine{
			InstanceID: instance.ID, State: ec2types.InstanceStateNameRunning, Boot: instance.Boot,
			LaunchedAt:   time.Now().UTC(),
			SystemStatus: ec2types.SummaryStatusOk, InstanceStatus: ec2types.SummaryStatusOk,
		}
	})
}

// joinCluster makes the machine a node, if its user data say so.
func (c *Controller) joinCluster(ctx context.Context, key string, instance record.Instance) (reconcile.Result, error) {
	c.mu.Lock()
	k := c.kubelets[key]
	c.mu.Unlock()
	if k != nil {
		return reconcile.Result{}, nil
	}
	var wanted *node
	var err error
	if instance.Fargate != nil {
		wanted = fargateNode(instance)
	} else if wanted, err = parseUserData(instance.UserData); err != nil {
		return reconcile.Result{}, c.recordBootResult(ctx, key, instance, "failed: "+err.Error(), err.Error())
	}
	if wanted == nil {
		return reconcile.Result{}, c.recordBootResult(ctx, key, instance, succeeded, "the user data join no cluster")
	}
	cluster, err := c.clusters.Get(ctx, record.ClusterKey(instance.Account, instance.Region, wanted.cluster))
	if errors.Is(err, store.ErrNotFound) {
		message := fmt.Sprintf("No cluster found for name: %s.", wanted.cluster)
		return reconcile.Result{After: 10 * time.Second}, c.recordBootResult(ctx, key, instance, "failed: "+message,
			message)
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	if f := instance.Fargate; f != nil && f.ClusterID != cluster.Value.ID {
		return reconcile.Result{}, nil // its cluster is gone, and so will it be
	}
	plane, err := c.planes.Get(ctx, cluster.Key)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return reconcile.Result{}, err
	}
	if err != nil || plane.Value.Endpoint == "" || cluster.Value.Deleting {
		return reconcile.Result{After: time.Second}, nil // the kubelet would try on as well
	}
	if wrong := wanted.against(plane.Value); wrong != "" {
		return reconcile.Result{After: 10 * time.Second}, c.recordBootResult(ctx, key, instance, succeeded, "kubelet: "+
			wrong)
	}
	primary, ok := c.interfacesOf(ctx, key)[0]
	if !ok {
		return reconcile.Result{}, nil // watchInterfaces tells
	}
	if instance.Fargate != nil {
		k, err = c.newFargateKubelet(key, instance, primary, wanted, cluster.Value.IPFamily)
	} else {
		k, err = c.newKubelet(key, instance, primary, wanted)
	}
	if err != nil {
		return reconcile.Result{}, c.recordBootResult(ctx, key, instance, "failed: "+err.Error(), err.Error())
	}
	if err := c.recordBootResult(ctx, key, instance, succeeded, fmt.Sprintf("kubelet: node %s joins cluster %s", k.name,
		wanted.cluster)); err != nil {
		return reconcile.Result{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if ctx.Err() != nil || c.living.Err() != nil {
		return reconcile.Result{}, c.living.Err()
	}
	f := c.fleets[cluster.Value.ID]
	if f == nil {
		f = c.newFleet(cluster.Value)
		c.fleets[cluster.Value.ID] = f
	}
	c.kubelets[key] = k
	f.add(k)
	return reconcile.Result{}, nil
}

// removeNode ends the node of an instance, without a word to its cluster: as when a machine loses its power.
func (c *Controller) removeNode(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.kubelets[key]
	if k == nil {
		return
	}
	delete(c.kubelets, key)
	if f := k.fleet; f.remove(k) {
		delete(c.fleets, f.cluster.ID)
		f.stop()
	}
}

// succeeded is the Machine.UserData of a boot script that succeeded.
const succeeded = "succeeded"

// recordBootResult records how the boot script ended, and writes a line to the console, if either is new.
func (c *Controller) recordBootResult(ctx context.Context, key string, instance record.Instance, userData,
	line string) error {
	userData, line = shorten(userData), shorten(line)
	if err := c.observe(ctx, key, instance, func(m *record.Machine) { m.UserData = userData }); err != nil {
		return err
	}
	return c.console(ctx, key, line)
}

// console adds a line to what get-console-output shows, unless it is the last one already.
func (c *Controller) console(ctx context.Context, key, line string) error {
	const most = 64 << 10
	row, err := c.consoles.Get(ctx, key)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	text := string(row.Value.Output)
	last := "simulated machine: " + line + "\n"
	if len(text) >= len(last) && text[len(text)-len(last):] == last {
		return nil
	}
	text += time.Now().UTC().Format("2006-01-02T15:04:05Z ") + last
	_, err = c.consoles.Put(ctx, key, record.MachineConsole{Output: []byte(text[max(0, len(text)-most):]),
		UpdatedAt: time.Now().UTC()})
	return err
}

// observe writes what change makes of the machine's row, if that is anything new.
func (c *Controller) observe(ctx context.Context, key string, instance record.Instance,
	change func(*record.Machine)) error {
	for {
		row, err := c.machines.Copy(ctx, key)
		if errors.Is(err, store.ErrNotFound) {
			m := record.Machine{InstanceID: instance.ID}
			change(&m)
			if _, err = c.machines.Create(ctx, key, m); errors.Is(err, store.ErrExists) {
				continue
			}
			return err
		}
		if err != nil {
			return err
		}
		before := row.Value
		change(&row.Value)
		if row.Value == before {
			return nil
		}
		if _, err = c.machines.Update(ctx, row); !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
}

// deleteRecords takes away what is left of an instance that is gone.
func (c *Controller) deleteRecords(ctx context.Context, key string, machine store.Row[record.Machine],
	known bool) error {
	if known {
		if err := c.machines.Delete(ctx, machine); err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
	}
	row, err := c.consoles.Get(ctx, key)
	if err == nil {
		err = c.consoles.Delete(ctx, row)
	}
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

// maxMessage is the number of bytes of user data output that are stored of a boot.
const maxMessage = 4 << 10

func shorten(s string) string {
	if len(s) <= maxMessage {
		return s
	}
	return strings.ToValidUTF8(s[:maxMessage], "") + " ..."
}
