package record

import (
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/store"
)

// Nodegroup is a managed node group as its owner wants it. Its status is not stored: it follows from this row, the
// [NodegroupState] that was observed, and the update named by LastUpdateID.
//
// Writer: internal/aws/eks. Only the row's deletion is the node-group controller's, once everything that belongs to a
// group with Deleting set is gone. A cluster that has one cannot be deleted.
type Nodegroup struct {
	Account   string
	Region    string
	Cluster   string // its name
	ClusterID string
	Name      string
	ID        string // a UUID, the end of its ARN and of the name of its Auto Scaling group
	CreatedAt time.Time
	// ModifiedAt is the time of the owner's last change.
	ModifiedAt time.Time

	NodeRoleARN   string
	SubnetIDs     []string // in the order of the request
	AMIType       ekstypes.AMITypes
	CapacityType  ekstypes.CapacityTypes
	InstanceTypes []string // empty when the launch template names one
	DiskSize      int32    // GiB; 0 with a launch template
	RemoteAccess  *ekstypes.RemoteAccessConfig
	Labels        map[string]string
	Taints        []ekstypes.Taint
	Scaling       ekstypes.NodegroupScalingConfig
	// ScalingChange counts the requests that spoke of Scaling, from 1: each is carried out once, and in between the
	// Auto Scaling group is whoever's who changes it
	// (https://docs.aws.amazon.com/eks/latest/userguide/managed-node-groups.html, Cluster Autoscaler).
	ScalingChange int
	UpdateConfig  ekstypes.NodegroupUpdateConfig
	Repair        *ekstypes.NodeRepairConfig `json:",omitempty"`
	WarmPool      *ekstypes.WarmPoolConfig   `json:",omitempty"`
	// Template is the desired template of its nodes; see [Nodegroup.Wanted].
	Template NodegroupTemplate
	Tags     map[string]string

	// LastUpdateID is the newest Update of the group, the only one that may be in progress.
	LastUpdateID       string
	ClientRequestToken string
	RequestHash        string
	// Deleting is set by DeleteNodegroup and never unset.
	Deleting bool
}

// NodegroupTemplate is the template that nodes are made from, as a version update changes it.
type NodegroupTemplate struct {
	Version        string // the minor version of Kubernetes, "1.35"; empty with an AMI of the user's own
	ReleaseVersion string // of the AMI, "1.35.4-20261105"; the AMI's ID with an AMI of the user's own
	// LaunchTemplate is the user's: ID, Name, and the number of its version.
	LaunchTemplate *ekstypes.LaunchTemplateSpecification `json:",omitempty"`
}

// Wanted returns what nodes are to be made from: Template, unless last, the update named by LastUpdateID, wanted it and
// has failed or was cancelled.
func (n Nodegroup) Wanted(last Update) NodegroupTemplate {
	if last.ID == n.LastUpdateID && last.PreviousTemplate != nil &&
		(last.Status == ekstypes.UpdateStatusFailed || last.Status == ekstypes.UpdateStatusCancelled) {
		return *last.PreviousTemplate
	}
	return n.Template
}

// NodegroupKey returns the key of a node group.
func NodegroupKey(account, region, cluster, name string) string {
	return store.Key(account, region, cluster, name)
}

// Key returns the group's key.
func (n Nodegroup) Key() string { return NodegroupKey(n.Account, n.Region, n.Cluster, n.Name) }

// ARN returns the group's Amazon Resource Name.
func (n Nodegroup) ARN() string {
	return "arn:aws:eks:" + n.Region + ":" + n.Account + ":nodegroup/" + n.Cluster + "/" + n.Name + "/" + n.ID
}

// Nodegroups returns the table of node groups, by NodegroupKey.
func Nodegroups(s *store.Store) store.Table[Nodegroup] {
	return store.NewTable[Nodegroup](s, "nodegroups")
}

// NodegroupState is the observed state of a node group, and the controller's progress with it.
//
// Writer: internal/controller/nodegroup.
type NodegroupState struct {
	NodegroupID string
	// LaunchTemplateID and LaunchTemplateVersion are of EKS's own launch template, from which the nodes are launched.
	LaunchTemplateID      string `json:",omitempty"`
	LaunchTemplateVersion string `json:",omitempty"`
	// Template is the template that this version was made from, and TemplateHash the hash of all its inputs.
	Template     NodegroupTemplate
	TemplateHash string `json:",omitempty"`
	// AutoScalingGroup is the name of the Auto Scaling group, RemoteAccessGroup the ID of the security group for SSH,
	// if there is one.
	AutoScalingGroup  string `json:",omitempty"`
	RemoteAccessGroup string `json:",omitempty"`
	InstanceProfile   string `json:",omitempty"` // the name of the instance profile that EKS made for the role
	// Scaling is the observed scaling configuration of the Auto Scaling group; ScalingChange is the
	// Nodegroup.ScalingChange that was applied to it.
	Scaling       ekstypes.NodegroupScalingConfig
	ScalingChange int
	// ScalingTemplate is the version of the launch template that the Auto Scaling group was given.
	ScalingTemplate string `json:",omitempty"`
	// Labels and Taints are those that live nodes were given, so that what is no longer wanted is taken away.
	Labels map[string]string `json:",omitempty"`
	Taints []ekstypes.Taint  `json:",omitempty"`
	// Mapped records how its role was mapped: "aws-auth", "access-entry", both, or not yet.
	Mapped []string `json:",omitempty"`
	// RefusedAt and FailedAt are since when the cluster has refused to have its role removed from aws-auth, and has failed
	// to do so, and TriedAt is when that was tried last.
	RefusedAt time.Time `json:",omitzero"`
	FailedAt  time.Time `json:",omitzero"`
	TriedAt   time.Time `json:",omitzero"`

	// Created reports that the group has been ACTIVE; Failed that its creation failed, DeleteFailed that its deletion did.
	Created      bool `json:",omitempty"`
	Failed       bool `json:",omitempty"`
	DeleteFailed bool `json:",omitempty"`
	// ModifiedAt is the time of the last change of the status or of Issues.
	ModifiedAt time.Time `json:",omitzero"`
	// Issues are the health issues that DescribeNodegroup shows.
	Issues []ekstypes.Issue `json:",omitempty"`

	// RollingUpdate is the version update under way: nil without one.
	RollingUpdate *NodegroupRollingUpdate `json:"Roll,omitempty"`
	// Draining are the nodes that are being drained, by instance: those of the update, and those that scaling in, a spot
	// interruption, a rebalance, a repair or the group's deletion takes away.
	Draining map[string]NodegroupDraining `json:"Leaving,omitempty"`
	// Unhealthy are nodes that node auto repair watches, by instance.
	Unhealthy map[string]NodegroupUnhealthy `json:",omitempty"`
	// Joining are instances that have not become Ready nodes yet, and since when they are in service.
	Joining map[string]time.Time `json:",omitempty"`
}

// NodegroupPhase is a phase of a version update.
// https://docs.aws.amazon.com/eks/latest/userguide/managed-node-update-behavior.html
type NodegroupPhase string

// The phases, in their order.
const (
	NodegroupSetUp     NodegroupPhase = "set-up"
	NodegroupScaleUp   NodegroupPhase = "scale-up"
	NodegroupUpgrade   NodegroupPhase = "upgrade"
	NodegroupScaleDown NodegroupPhase = "scale-down"
)

// NodegroupRollingUpdate is the progress of a version update.
type NodegroupRollingUpdate struct {
	UpdateID string
	Phase    NodegroupPhase
	Since    time.Time // of the phase
	// Before is the Auto Scaling group's size before it was scaled up; Added is by how much it was.
	Before ekstypes.NodegroupScalingConfig
	Added  int32
	// Cordoned are nodes that the update made unschedulable, by instance: if it fails they are made schedulable again.
	Cordoned []string `json:",omitempty"`
	// Desired is, in the scale-down phase, the desired capacity that the Auto Scaling group had last: when it has more,
	// somebody else scales up, such as the Cluster Autoscaler. 0 before the phase.
	Desired int32 `json:",omitempty"`
	// Suspended reports that the update suspended AZRebalance of the Auto Scaling group, and is to resume it.
	Suspended bool `json:",omitempty"`
	// Waiting is the time since which the update waits for nodes to become Ready; zero while it does not.
	Waiting time.Time `json:",omitzero"`
	// Balancing is the time since which the update waits for load balancers to find new nodes healthy.
	Balancing time.Time `json:",omitzero"`
	// Failing is the reason that the update will fail, once the group is as it was before.
	Failing *ekstypes.ErrorDetail `json:",omitempty"`
}

// NodegroupDraining is the progress of draining and terminating a node.
type NodegroupDraining struct {
	Node  string // its name
	Why   string // "update", "scale-in", "rebalance", "spot", "repair", "delete"
	Since time.Time
	// Cordoned reports that it was schedulable before.
	Cordoned bool `json:",omitempty"`
	// Drained is the time when nothing was left to evict; Terminated the time when the Auto Scaling group was asked to
	// terminate it.
	Drained    time.Time `json:",omitzero"`
	Terminated time.Time `json:",omitzero"`
	// Blocked are the pods that could not be evicted when it was tried last, "namespace/name".
	Blocked []string `json:",omitempty"`
}

// NodegroupUnhealthy is a node that is not well.
type NodegroupUnhealthy struct {
	Node      string
	Condition string // "Ready", or one of the node monitoring agent's
	Reason    string
	Since     time.Time
	Repaired  time.Time `json:",omitzero"` // when it was rebooted, or ordered to be replaced
	// Cordoned reports that node auto repair made it unschedulable, and is to make it schedulable again when it is well.
	Cordoned bool `json:",omitempty"`
}

// NodegroupStates returns the table of what was observed of node groups, by NodegroupKey.
func NodegroupStates(s *store.Store) store.Table[NodegroupState] {
	return store.NewTable[NodegroupState](s, "nodegroupstates")
}
