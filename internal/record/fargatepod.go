package record

import (
	"time"

	"github.com/coracle-eks/coracle/internal/store"
)

// FargatePod is the capacity that a pod was given: it is written before anything is made for the pod, and deleted when
// nothing is left of it, so that no machine and no network interface is ever without a row.
//
// Writer: internal/controller/fargate.
type FargatePod struct {
	Account   string
	Region    string
	Cluster   string // its name
	ClusterID string
	Namespace string
	Name      string
	UID       string // of the pod
	// ID names the capacity, "<10 hex digits>-<32 hex digits>": the pod's nominatedNodeName until there is a node.
	ID        string
	Profile   string // the name of the profile
	ProfileID string // and its ID: another one of that name is not meant
	CPU       int64  // millicores
	Memory    int64  // MiB
	Storage   int64  // GiB
	CreatedAt time.Time

	// SubnetID and Zone are where the machine is, or is being launched; they are set before anything is made there.
	SubnetID string `json:",omitempty"`
	Zone     string `json:",omitempty"` // "eu-west-1a"
	// Since is when ID was made: each machine that is tried has its own.
	Since time.Time

	InstanceID         string `json:",omitempty"` // "i-…", of its machine
	NetworkInterfaceID string `json:",omitempty"`
	// Address is that of the network interface in the cluster's IP family: the pod's and the node's.
	Address    string    `json:",omitempty"`
	NodeName   string    `json:",omitempty"` // "fargate-ip-10-0-1-2.eu-west-1.compute.internal"
	LaunchedAt time.Time `json:",omitzero"`
	// Bound reports that the pod was bound to the node.
	Bound bool `json:",omitempty"`
	// Ending is set when the pod is gone, or its machine is, and never unset: node, machine and row go.
	Ending bool `json:",omitempty"`
	// Retired is set when the machine did not become a node: it goes, and another one with another ID is made.
	Retired bool `json:",omitempty"`
	// Failure is why its machine cannot be made or does not become a node; empty when nothing is wrong. Failures counts
	// how often that was so in a row, and RetryAt is when it is tried again.
	Failure  string    `json:",omitempty"`
	Failures int       `json:",omitempty"`
	RetryAt  time.Time `json:",omitzero"`
	// Refusal is why the pod or its node cannot be deleted when its machine is terminated; empty when nothing is wrong.
	// RefusedAt is when it was last changed.
	Refusal   string    `json:",omitempty"`
	RefusedAt time.Time `json:",omitzero"`
	// AwaitsAddress reports that it failed because no subnet of the profile has a free address: it is tried again as soon
	// as there is one.
	AwaitsAddress bool `json:",omitempty"`
	// Patch is set while the pod is to leave its machine, for another one with a patched operating system.
	Patch *FargatePatch `json:",omitempty"`
}

// FargatePatch is the eviction of a pod for a patch of its machine's operating system.
// https://docs.aws.amazon.com/eks/latest/userguide/fargate-pod-patching.html
type FargatePatch struct {
	// Since is when it was asked for, and Deadline when the pod is deleted if it cannot be evicted.
	Since    time.Time
	Deadline time.Time
	// Refused is why its eviction was refused; empty before it was tried.
	Refused string `json:",omitempty"`
}

// FargatePodKey returns the key of the capacity of a pod.
func FargatePodKey(account, region, cluster, uid string) string {
	return store.Key(account, region, cluster, uid)
}

// Key returns the row's key.
func (p FargatePod) Key() string { return FargatePodKey(p.Account, p.Region, p.Cluster, p.UID) }

// FargatePods returns the table of the capacity of pods, by FargatePodKey.
func FargatePods(s *store.Store) store.Table[FargatePod] {
	return store.NewTable[FargatePod](s, "fargatepods")
}

// FargatePodsByCapacity finds pods by [FargateKey] of their cluster's ID and their own.
func FargatePodsByCapacity(s *store.Store) store.Index[FargatePod] {
	return store.NewIndex(FargatePods(s), "capacity", func(p FargatePod) string { return FargateKey(p.ClusterID, p.ID) })
}

// FargateKey returns what something of a cluster is found by that has a name in it.
func FargateKey(clusterID, name string) string { return store.Key(clusterID, name) }

// FargateMachine is what makes an instance the machine of a Fargate pod: Amazon's, which no user of EC2 sees.
type FargateMachine struct {
	// Capacity is the FargatePod.ID of the pod it is for: a launch with the same one is the same launch.
	Capacity   string
	ClusterID  string
	Cluster    string // its name
	NodeName   string
	RoleARN    string // the pod execution role
	ProfileARN string // the source of the role's sessions (aws:SourceArn)
	CPU        int64  // millicores
	Memory     int64  // MiB
	Storage    int64  // GiB, what the pod may write
	// NodeConfig is what its guest is to do, JSON of guest/fargate.Config.
	NodeConfig []byte
}
