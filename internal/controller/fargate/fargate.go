// Package fargate runs pods on Fargate.
//
// The API layer (internal/aws/eks/fargate) records the desired state, a [record.FargateProfile]. The [Controller] calls
// the AWS APIs under [ServiceLinkedRole], EC2's machines through [Machines], and the API servers of clusters
// as three users of EKS. It
//
//   - lets the pod execution role of a new profile in (access.go) and puts the webhook into the cluster that sends pods
//     here (webhook.go), as eks:fargate-manager and eks:cluster-bootstrap,
//   - schedules pods whose scheduler is fargate-scheduler, as the user of that name (server.go watches; admit.go): each
//     gets a machine of its own size (provision.go, subnets.go, addresses.go, securitygroups.go, nodeconfig.go), and is
//     bound to its node when it is Ready (provision.go),
//   - ends a machine with its pod, and a pod with its machine (end.go),
//   - takes pods off machines whose operating system is to be patched (patch.go), and
//   - deletes a profile with its pods, and the role's way in with the last profile of the role (delete.go).
//
// It is the only writer of [record.FargateProfileState] and [record.FargatePod], and it deletes profiles. A row of a
// pod is written before anything is made for it, and deleted when nothing is left: so it may be killed at any
// instruction.
//
// https://docs.aws.amazon.com/eks/latest/userguide/fargate.html
package fargate

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/moby/locker"
	"github.com/sourcegraph/conc"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/coracle-eks/coracle/internal/fargate"
	"github.com/coracle-eks/coracle/internal/kube/apiserver"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// ServiceLinkedRole is the name of the role in which EKS runs pods on Fargate: Options have clients with its
// credentials.
const ServiceLinkedRole = fargate.ServiceLinkedRole

const (
	// managerAgent is the user agent of eks:fargate-manager in the audit log, and its field manager.
	managerAgent = "eks-fargate-manager"
	// bootstrapUser puts the webhook into clusters, with the powers of mastersGroup.
	bootstrapUser = "eks:cluster-bootstrap"
	mastersGroup  = "system:masters"
)

// EC2 is the subset of the EC2 API that Fargate uses. *ec2.Client implements it.
type EC2 interface {
	DescribeSubnets(context.Context, *ec2.DescribeSubnetsInput, ...func(*ec2.Options)) (*ec2.DescribeSubnetsOutput,
		error)
}

// EKS is the part of Amazon EKS that lets a role in. *eks.Client implements it.
type EKS interface {
	CreateAccessEntry(context.Context, *eks.CreateAccessEntryInput,
		...func(*eks.Options)) (*eks.CreateAccessEntryOutput, error)
	DeleteAccessEntry(context.Context, *eks.DeleteAccessEntryInput,
		...func(*eks.Options)) (*eks.DeleteAccessEntryOutput, error)
}

// Machines makes the machines of pods: Amazon's, which users of EC2 do not see. instance.Fargate
// (internal/aws/ec2/instance) does the work, because only EC2 writes the records of instances.
type Machines interface {
	// Launch makes a machine with its network interface. It is idempotent by Machine.Capacity. Its errors have the codes
	// of EC2: InsufficientFreeAddressesInSubnet, InvalidGroup.NotFound, ...
	Launch(context.Context, Launch) (record.Instance, record.NetworkInterface, error)
	// Terminate ends a machine. It is no error that the machine is gone.
	Terminate(ctx context.Context, account, region, instanceID string) error
}

// Launch is a request for a machine.
type Launch struct {
	Account, Region, SubnetID string
	SecurityGroupIDs          []string
	Machine                   record.FargateMachine
	// IPv6 gives the node an IPv6 address as its own, as those of a cluster of that IP family have.
	IPv6 bool
	// NodeConfig returns Machine.NodeConfig, once its address is known.
	NodeConfig func(address, nodeName, zone string) ([]byte, error)
}

// Options configures a Controller. All fields but those marked optional must be set.
type Options struct {
	Store *store.Store
	// Config returns the configuration of a client of a cluster's API server, as the given user.
	Config func(ctx context.Context, cluster record.Cluster, user string, groups ...string) (*rest.Config, error)
	// The clients have the permissions of [ServiceLinkedRole] in that account.
	EC2      func(account, region string) EC2
	EKS      func(account, region string) EKS
	Machines Machines
	// Trusts reports whether the pods of a profile may have its pod execution role: it exists, and its trust policy lets
	// Fargate assume it.
	Trusts func(ctx context.Context, profile record.FargateProfile) (bool, error)
	// Webhook returns the configuration of the webhook that sends the pods of a cluster to Fargate.
	Webhook func(cluster record.Cluster) *unstructured.Unstructured
	// VCPUQuota is the quota of virtual CPUs of an account in a region; 1000 when 0. It is AWS's only quota of the number
	// of pods.
	VCPUQuota int64
	// ProvisionTimeout is the time that a machine may take to become a Ready node; 10 minutes when 0. CreateTimeout is
	// the time for which the creation of a profile is tried; 15 minutes when 0.
	ProvisionTimeout, CreateTimeout time.Duration
	// RetryFirst and RetryMost bound the wait before a machine is tried again; 5 s and 5 min when 0.
	RetryFirst, RetryMost time.Duration
	Now                   func() time.Time // time.Now when nil
	Log                   *slog.Logger     // slog.Default() when nil
}

// Controller runs the Fargate pods of all clusters.
type Controller struct {
	o         Options
	log       *slog.Logger
	now       func() time.Time
	profiles  store.Table[record.FargateProfile]
	states    store.Table[record.FargateProfileState]
	pods      store.Table[record.FargatePod]
	clusters  store.Table[record.Cluster]
	planes    store.Table[record.ControlPlane]
	entries   store.Table[record.AccessEntry]
	instances store.Table[record.Instance]
	machines  store.Table[record.Machine]
	servers   *apiserver.Connections[*server]
	// placementLocks serializes placement: by account, for quota and subnets; by the key of a cluster, which is locked
	// first, for topology spread.
	placementLocks *locker.Locker
	// profilesOf and podsOf give the keys of the profiles and pods of a cluster, from its key or that of what belongs to
	// it.
	profilesOf, podsOf func(key string) []string
	// byMachine has the keys of pods by the EC2Keys of their machines.
	byMachine sync.Map
	addresses addressQueue
}

// New returns a Controller, which does nothing until it is run.
func New(o Options) *Controller {
	if o.VCPUQuota == 0 {
		o.VCPUQuota = 1000
	}
	if o.ProvisionTimeout == 0 {
		o.ProvisionTimeout = 10 * time.Minute
	}
	if o.CreateTimeout == 0 {
		o.CreateTimeout = 15 * time.Minute
	}
	if o.RetryFirst == 0 {
		o.RetryFirst = 5 * time.Second
	}
	if o.RetryMost == 0 {
		o.RetryMost = 5 * time.Minute
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	c := &Controller{
		o: o, log: o.Log, now: func() time.Time { return o.Now().UTC() }, placementLocks: locker.New(),
		addresses: addressQueue{woken: map[string]bool{}},
		profiles:  record.FargateProfiles(o.Store), states: record.FargateProfileStates(o.Store),
		pods: record.FargatePods(o.Store), clusters: record.Clusters(o.Store), planes: record.ControlPlanes(o.Store),
		entries: record.AccessEntries(o.Store), instances: record.Instances(o.Store),
		machines: record.Machines(o.Store),
	}
	c.profilesOf = reconcile.Below(c.profiles, record.ClusterKeyParts)
	c.podsOf = reconcile.Below(c.pods, record.ClusterKeyParts)
	c.servers = apiserver.New[*server](apiserver.Options{
		Store: o.Store, Config: o.Config, User: fargate.SchedulerUser, Agent: fargate.SchedulerAgent,
		What: "watch the pods of Fargate profiles", Log: o.Log,
		Wanted: func(_ context.Context, key string) bool {
			return len(c.profilesOf(key)) > 0 || len(c.podsOf(key)) > 0
		},
		Wakes: func(ctx context.Context, changed func(string)) {
			var watches conc.WaitGroup
			defer watches.Wait()
			watches.Go(func() { reconcile.Mapped(c.profiles, "", reconcile.Above(record.ClusterKeyParts))(ctx, changed) })
			watches.Go(func() { reconcile.Mapped(c.pods, "", reconcile.Above(record.ClusterKeyParts))(ctx, changed) })
		},
	})
	return c
}

// Controllers returns what reconcile.Run runs. The keys of the first are those of profiles, the keys of the second
// those of pods: record.FargatePodKey, whether they have a row yet or not.
func (c *Controller) Controllers() []reconcile.Controller {
	profileWakes, wakeProfile := notifier()
	podWakes, wakePod := notifier()
	return []reconcile.Controller{{
		Name:      "fargateprofile",
		Reconcile: c.reconcileProfile,
		Sources: []reconcile.Source{
			reconcile.Table(c.profiles, ""),
			reconcile.Mapped(c.pods, "", c.concernedProfiles),
			reconcile.Mapped(c.clusters, "", c.profilesOf),
			reconcile.Mapped(c.planes, "", c.profilesOf),
			reconcile.Mapped(c.entries, "", c.profilesOf),
			reconcile.Mapped(record.Roles(c.o.Store), "", c.profilesWithRole),
			profileWakes,
		},
		Workers:    8,
		Resync:     10 * time.Minute,
		MaxBackoff: 30 * time.Second,

		AccountWorkers: 4, ClusterWorkers: 2, Timeout: 5 * time.Minute,
	}, {
		Name:      "fargatepod",
		Reconcile: c.reconcilePod,
		Sources: []reconcile.Source{
			reconcile.Table(c.pods, ""),
			reconcile.Mapped(c.machines, "", c.podOfMachine),
			reconcile.Mapped(c.instances, "", c.podOfMachine),
			reconcile.Mapped(record.NetworkInterfaces(c.o.Store), "", c.addresses.wake),
			reconcile.Mapped(c.clusters, "", c.podsOf),
			reconcile.Mapped(c.profiles, "", c.waitingPods),
			reconcile.Mapped(c.states, "", c.waitingPods),
			podWakes,
		},
		Watches: []reconcile.Watch{func(ctx context.Context, changed func(context.Context, string) error) {
			c.watch(ctx, wakeProfile, wakePod, changed)
		}},
		Workers:    48,
		Resync:     10 * time.Minute,
		MaxBackoff: 30 * time.Second,

		// Each pass may hold a pod that is as large as its API server likes, within bounds.
		AccountWorkers: 8, ClusterWorkers: 4, Timeout: 2 * time.Minute,
	}}
}

// notifier returns a source, and the function that sends keys to whoever runs it. Keys that are sent before it runs are
// nobody's loss: a source begins with all keys.
func notifier() (reconcile.Source, func(string)) {
	var mu sync.Mutex
	to := func(string) {}
	source := func(ctx context.Context, changed func(string)) {
		mu.Lock()
		to = changed
		mu.Unlock()
		<-ctx.Done()
	}
	return source, func(key string) {
		mu.Lock()
		send := to
		mu.Unlock()
		send(key)
	}
}

// concernedProfiles returns the keys of the profiles of a pod's cluster that wait for their pods to be gone, and of the
// pod's own if the pod cannot be cleaned up, or gets no node: its role may no longer be let in.
func (c *Controller) concernedProfiles(key string) (keys []string) {
	row, err := c.pods.Get(context.Background(), key)
	if err == nil && (row.Value.Refusal != "" || row.Value.Failure != "") {
		pod := row.Value
		keys = append(keys, record.FargateProfileKey(pod.Account, pod.Region, pod.Cluster, pod.Profile))
	}
	for _, k := range c.profilesOf(key) {
		if row, err := c.profiles.Get(context.Background(), k); err == nil && row.Value.Deleting {
			keys = append(keys, k)
		}
	}
	return keys
}

// profilesWithRole returns the keys of the profiles that have a role, from its key.
func (c *Controller) profilesWithRole(key string) (keys []string) {
	account := store.Parts(key)[0]
	rows, _ := c.profiles.List(context.Background(), store.Prefix(account)) // while it fails, the resync finds out
	for _, row := range rows {
		if record.RoleKey(account, roleName(row.Value)) == key {
			keys = append(keys, row.Key)
		}
	}
	return keys
}

// podOfMachine returns the key of the pod of a machine.
func (c *Controller) podOfMachine(key string) []string {
	if pod, ok := c.byMachine.Load(key); ok {
		return []string{pod.(string)}
	}
	return nil // no pod's, or not looked at yet: it will be
}

// waitingPods returns the keys of the pods of a profile's cluster that have a record, and has the watch of the cluster
// tell those that have none again: each may be waiting for the profile.
func (c *Controller) waitingPods(key string) []string {
	cluster := store.Key(store.Parts(key)[:record.ClusterKeyParts]...)
	if s, ok := c.servers.Get(cluster); ok {
		s.tellUnscheduled()
	}
	return c.podsOf(cluster)
}
