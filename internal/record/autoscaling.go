package record

import (
	"strings"
	"time"

	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/coracle-eks/coracle/internal/store"
)

// AutoScalingGroup is an Auto Scaling group as its owner wants it. What it has is in the AutoScalingInstances.
//
// Writer: internal/aws/autoscaling. Only the row's deletion is the controller's (internal/controller/autoscalinggroup),
// once nothing is left of a group with Deleting set.
type AutoScalingGroup struct {
	Account   string
	Region    string
	Name      string
	ID        string // a UUID, part of the ARN
	CreatedAt time.Time
	CreatedBy string `json:",omitempty"` // ARN

	Min, Max, Desired int32 // in units of capacity: instances, unless a mixed instances policy gives weights
	// Change is the cause of the last change of Desired; activities show it.
	Change AutoScalingChange

	// LaunchTemplate or Mixed is set. The template is named by its ID; its version is "$Latest", "$Default" or a
	// number.
	LaunchTemplate *astypes.LaunchTemplateSpecification `json:",omitempty"`
	Mixed          *astypes.MixedInstancesPolicy        `json:",omitempty"`

	// Zones are the names of its availability zones, sorted; SubnetIDs, in the order of the request, are in them.
	// Without subnets instances are launched in the default subnets of the zones.
	Zones     []string
	SubnetIDs []string

	HealthCheckType        string // "EC2" or "EC2,EBS", "ELB", …: EC2 is always part of it
	HealthCheckGracePeriod int32  // seconds
	DefaultCooldown        int32  // seconds
	DefaultInstanceWarmup  int32  // seconds; -1 without
	MaxInstanceLifetime    int32  // seconds; 0 without end
	TerminationPolicies    []string
	ProtectNew             bool // from scale in
	CapacityRebalance      bool
	DeletionProtection     astypes.DeletionProtection `json:",omitempty"`
	DesiredCapacityType    string                     `json:",omitempty"`
	PlacementGroup         string                     `json:",omitempty"`
	Context                string                     `json:",omitempty"`
	ServiceLinkedRoleARN   string
	Maintenance            *astypes.InstanceMaintenancePolicy    `json:",omitempty"`
	ZoneDistribution       *astypes.AvailabilityZoneDistribution `json:",omitempty"`

	// Suspended are processes that do not run, and why.
	Suspended map[string]string `json:",omitempty"`
	Metrics   []string          `json:",omitempty"`
	Tags      []AutoScalingTag  `json:",omitempty"` // by key
	Hooks     []AutoScalingHook `json:",omitempty"` // by name
	RefreshID string            `json:",omitempty"` // the newest instance refresh, the only one that may be under way
	// WarmPool is nil without one.
	WarmPool *AutoScalingWarmPool `json:",omitempty"`
	// Traffic are its traffic sources. One that is detached stays until its instances are deregistered.
	Traffic  []AutoScalingTrafficSource `json:",omitempty"`
	Deleting bool                       `json:",omitempty"`
}

// AutoScalingWarmPool is the pool of instances that a group has ready beside those that serve.
// https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-warm-pools.html
type AutoScalingWarmPool struct {
	Min int32 // instances that are always in it
	// MaxPrepared is the maximum size of the group and its pool together; nil: the maximum size of the group.
	MaxPrepared *int32                `json:",omitempty"`
	State       astypes.WarmPoolState // in which its instances wait: "Stopped" or "Running"
	Reuse       bool                  `json:",omitempty"` // instances that are scaled in return to it
	// Deleting reports that the group is deleted with its last instance, and Force that no lifecycle hook is waited for.
	Deleting bool `json:",omitempty"`
	Force    bool `json:",omitempty"`
}

// Warm returns how much capacity the group's warm pool is to have. Without one it is 0.
func (g AutoScalingGroup) Warm() int32 {
	p := g.WarmPool
	if p == nil || p.Deleting || g.Deleting {
		return 0
	}
	prepared := g.Max
	if p.MaxPrepared != nil {
		prepared = *p.MaxPrepared
	}
	return max(p.Min, prepared-g.Desired)
}

// Types of traffic sources.
const (
	TrafficClassic     = "elb"   // a Classic Load Balancer
	TrafficTargetGroup = "elbv2" // a target group
)

// AutoScalingTrafficSource is a load balancer or target group with which the instances of a group are registered.
type AutoScalingTrafficSource struct {
	ID         string    // a UUID, of this attachment
	Type       string    // TrafficClassic or TrafficTargetGroup
	Identifier string    // the name of a Classic Load Balancer, or the ARN of a target group
	Source     bool      `json:",omitempty"` // whether it was attached as a traffic source, of whatever type
	DetachedAt time.Time `json:",omitzero"`
}

// IsSame reports whether two attachments are of the same load balancer or target group.
func (t AutoScalingTrafficSource) IsSame(other AutoScalingTrafficSource) bool {
	return t.Type == other.Type && t.Identifier == other.Identifier
}

// HasLoadBalancerChecks reports whether the health checks of load balancers count.
func (g AutoScalingGroup) HasLoadBalancerChecks() bool {
	for check := range strings.SplitSeq(g.HealthCheckType, ",") {
		if strings.TrimSpace(check) == "ELB" {
			return true
		}
	}
	return false
}

// AutoScalingChange is a change of a group's desired capacity.
type AutoScalingChange struct {
	ID       string
	At       time.Time
	By       string // "a user request created an AutoScalingGroup", as activities put it
	From, To int32
}

// AutoScalingTag is a tag of a group.
type AutoScalingTag struct {
	Key, Value        string
	PropagateAtLaunch bool
}

// AutoScalingHook is a lifecycle hook of a group.
type AutoScalingHook struct {
	Name             string
	Transition       string // "autoscaling:EC2_INSTANCE_LAUNCHING" or "…_TERMINATING"
	DefaultResult    string // "CONTINUE" or "ABANDON"
	HeartbeatTimeout int32  // seconds
	Metadata         string `json:",omitempty"`
}

// ARN returns the group's Amazon Resource Name.
func (g AutoScalingGroup) ARN() string {
	return "arn:aws:autoscaling:" + g.Region + ":" + g.Account + ":autoScalingGroup:" + g.ID +
		":autoScalingGroupName/" + g.Name
}

// Key returns the group's key.
func (g AutoScalingGroup) Key() string { return AutoScalingGroupKey(g.Account, g.Region, g.Name) }

// AutoScalingGroupKey returns the key of a group.
func AutoScalingGroupKey(account, region, name string) string {
	return store.Key(account, region, name)
}

// AutoScalingGroups returns the table of groups, by AutoScalingGroupKey.
func AutoScalingGroups(s *store.Store) store.Table[AutoScalingGroup] {
	return store.NewTable[AutoScalingGroup](s, "autoscalinggroups")
}

// AutoScalingGroupStatus is the controller's progress with a group.
//
// Writer: internal/controller/autoscalinggroup.
type AutoScalingGroupStatus struct {
	GroupID string
	// Answered is the ID of the newest AutoScalingChange that an activity gave as its cause.
	Answered string `json:",omitempty"`
	// Failures counts launches in a row that failed; the next is not before RetryAt, unless the group's row has another
	// revision than FailedAt.
	Failures int       `json:",omitempty"`
	RetryAt  time.Time `json:",omitzero"`
	FailedAt int64     `json:",omitempty"`
	// Zones are those in which a launch failed, and when they are tried again.
	Zones map[string]time.Time `json:",omitempty"`
	// Balancing reports that an instance more than is desired was launched to balance the zones: one goes once it is in
	// service.
	Balancing bool `json:",omitempty"`
	// Traffic is by the IDs of traffic sources.
	Traffic map[string]AutoScalingTrafficStatus `json:",omitempty"`
}

// States of traffic sources, as Auto Scaling has them.
const (
	TrafficAdding    = "Adding"
	TrafficAdded     = "Added"
	TrafficInService = "InService"
	TrafficRemoving  = "Removing"
)

// AutoScalingTrafficStatus is how far the attachment of a traffic source is.
type AutoScalingTrafficStatus struct {
	State string // TrafficAdding, TrafficAdded or TrafficInService
	// Failure is why its instances could not be registered, with the revision FailedAt of the group. They are tried again
	// at RetryAt, or when the group changes.
	Failure  string    `json:",omitempty"`
	FailedAt int64     `json:",omitempty"`
	RetryAt  time.Time `json:",omitzero"`
}

// AutoScalingGroupStatuses returns the table of statuses, by AutoScalingGroupKey.
func AutoScalingGroupStatuses(s *store.Store) store.Table[AutoScalingGroupStatus] {
	return store.NewTable[AutoScalingGroupStatus](s, "autoscalinggroupstatuses")
}

// AutoScalingInstance is an instance of a group, as the controller keeps it.
//
// Writer: internal/controller/autoscalinggroup.
type AutoScalingInstance struct {
	ID           string // "i-…"
	GroupName    string
	GroupID      string
	InstanceType string
	ImageID      string
	Zone         string
	State        astypes.LifecycleState
	Unhealthy    bool `json:",omitempty"`
	// LaunchTemplate is the one that it was launched from, with the number of its version; nil for an attached
	// instance.
	LaunchTemplate *astypes.LaunchTemplateSpecification `json:",omitempty"`
	Weight         int32                                // units of capacity; 1 without weights
	Weighted       bool                                 `json:",omitempty"`
	Spot           bool                                 `json:",omitempty"`
	// at launch; AutoScalingOrder.Protected goes first
	Protected   bool `json:",omitempty"`
	LaunchedAt  time.Time
	InServiceAt time.Time `json:",omitzero"`
	// ActivityID is of the activity that is under way with it, if one is.
	ActivityID string `json:",omitempty"`
	// Actions are the lifecycle actions that it waits for in Pending:Wait or Terminating:Wait.
	Actions []AutoScalingAction `json:",omitempty"`
	// FromPool reports that it was in the warm pool before it was Pending, ToPool that it goes there instead of being
	// terminated.
	FromPool bool `json:",omitempty"`
	ToPool   bool `json:",omitempty"`
	// Traffic is how far its registration with traffic sources is, by the IDs of their attachments.
	Traffic map[string]AutoScalingRegistration `json:",omitempty"`
	// Draining reports that it is Terminating and has connections yet: its lifecycle hooks come after that.
	Draining bool `json:",omitempty"`
}

// AutoScalingRegistration is how far the registration of an instance with a traffic source is.
type AutoScalingRegistration string

// Values of AutoScalingRegistration.
const (
	Registering  AutoScalingRegistration = "registering" // decided upon: it may be registered
	Registered   AutoScalingRegistration = "registered"
	Unregistered AutoScalingRegistration = "unregistered" // not to be, as AddToLoadBalancer was suspended
	Deregistered AutoScalingRegistration = "deregistered" // its connections drain
)

// Warm reports whether the instance is in the group's warm pool.
func (i AutoScalingInstance) Warm() bool { return strings.HasPrefix(string(i.State), "Warmed:") }

// AutoScalingAction is the lifecycle action that an instance waits for.
type AutoScalingAction struct {
	Hook          string
	Token         string // a UUID
	StartedAt     time.Time
	Deadline      time.Time // of the heartbeat
	DefaultResult string
}

// AutoScalingInstances returns the table of the instances of groups, by EC2Key: an instance is in one group at most.
func AutoScalingInstances(s *store.Store) store.Table[AutoScalingInstance] {
	return store.NewTable[AutoScalingInstance](s, "autoscalinginstances")
}

// AutoScalingOrder is a user's request for one instance of a group.
//
// Writer: internal/aws/autoscaling. The controller removes the row when the instance leaves the group.
type AutoScalingOrder struct {
	GroupName string
	GroupID   string
	Attach    *AutoScalingRequest `json:",omitempty"`
	Detach    *AutoScalingRequest `json:",omitempty"`
	Terminate *AutoScalingRequest `json:",omitempty"`
	// Standby is the desired state: standby or, when false after it was true, in service.
	Standby   bool                `json:",omitempty"`
	StandbyBy *AutoScalingRequest `json:",omitempty"`
	Protected *bool               `json:",omitempty"`
	// Health is the status given to SetInstanceHealth: "Healthy", "Unhealthy" or empty.
	Health           string    `json:",omitempty"`
	HealthAt         time.Time `json:",omitzero"`
	HealthAfterGrace bool      `json:",omitempty"` // it counts once the grace period is over
	// Actions are the results of completed lifecycle actions, by token: "CONTINUE" or "ABANDON". Heartbeats are the
	// times of the last heartbeats.
	Actions    map[string]string    `json:",omitempty"`
	Heartbeats map[string]time.Time `json:",omitempty"`
}

// AutoScalingRequest is a request about one instance, with the activity that it was answered with.
type AutoScalingRequest struct {
	ActivityID string
	At         time.Time
	Cause      string
}

// AutoScalingOrders returns the table of orders, by EC2Key of the instance.
func AutoScalingOrders(s *store.Store) store.Table[AutoScalingOrder] {
	return store.NewTable[AutoScalingOrder](s, "autoscalingorders")
}

// AutoScalingLaunch is a launch that was decided upon. The row is written before EC2 is asked, and goes in the
// transaction that records the instances: after a crash between the two the same request, with the same client token,
// finds what it launched.
//
// Writer: internal/controller/autoscalinggroup.
type AutoScalingLaunch struct {
	GroupID        string
	Token          string // a UUID
	Input          ec2.RunInstancesInput
	Zone           string
	LaunchTemplate *astypes.LaunchTemplateSpecification
	Weight         int32
	Weighted       bool     `json:",omitempty"`
	Spot           bool     `json:",omitempty"`
	Causes         []string // one for each instance that is wanted
	Warm           bool     `json:",omitempty"` // into the warm pool
	StartedAt      time.Time
}

// AutoScalingLaunches returns the table of launches, by Key(account, region, group, token).
func AutoScalingLaunches(s *store.Store) store.Table[AutoScalingLaunch] {
	return store.NewTable[AutoScalingLaunch](s, "autoscalinglaunches")
}

// AutoScalingActivity is a scaling activity of a group. The oldest go when there are many.
//
// Writer: internal/controller/autoscalinggroup.
type AutoScalingActivity struct {
	ID            string // a UUID
	GroupName     string
	GroupID       string
	InstanceID    string `json:",omitempty"`
	Description   string
	Cause         string
	StatusCode    astypes.ScalingActivityStatusCode
	StatusMessage string `json:",omitempty"`
	StartTime     time.Time
	EndTime       time.Time `json:",omitzero"`
	Progress      int32     // percent
	Details       string    // JSON
}

// AutoScalingActivities returns the table of activities, by Key(account, region, group, ID).
func AutoScalingActivities(s *store.Store) store.Table[AutoScalingActivity] {
	return store.NewTable[AutoScalingActivity](s, "autoscalingactivities")
}

// AutoScalingRefresh is an instance refresh that was started.
//
// Writer: internal/aws/autoscaling.
type AutoScalingRefresh struct {
	ID          string // a UUID
	GroupName   string
	GroupID     string
	StartedAt   time.Time
	Preferences astypes.RefreshPreferences
	// Desired is the configuration to bring about, if it is not the group's own; the group has it once the refresh has
	// succeeded. Before is the group's configuration when it began: what a rollback goes back to.
	Desired *astypes.DesiredConfiguration `json:",omitempty"`
	Before  astypes.DesiredConfiguration
	// CancelledAt and RollbackAt are the times of the requests to end it early.
	CancelledAt time.Time `json:",omitzero"`
	RollbackAt  time.Time `json:",omitzero"`
}

// AutoScalingRefreshes returns the table of instance refreshes, by Key(account, region, group, ID).
func AutoScalingRefreshes(s *store.Store) store.Table[AutoScalingRefresh] {
	return store.NewTable[AutoScalingRefresh](s, "autoscalingrefreshes")
}

// AutoScalingRefreshProgress is the progress of an instance refresh. No row: Pending.
//
// Writer: internal/controller/autoscalinggroup.
type AutoScalingRefreshProgress struct {
	Status    astypes.InstanceRefreshStatus
	Reason    string    `json:",omitempty"`
	StartedAt time.Time `json:",omitzero"`
	EndedAt   time.Time `json:",omitzero"`
	Total     int32     // instances that were to be replaced
	Remaining int32
	// RolledBackAt is the time when a rollback began, automatically or by request; Failed is its reason.
	RolledBackAt   time.Time `json:",omitzero"`
	RollbackReason string    `json:",omitempty"`
	// CheckpointAt is the time when the newest checkpoint was reached, which was at Checkpoint percent.
	CheckpointAt time.Time `json:",omitzero"`
	Checkpoint   int32     `json:",omitempty"`
	// BakingSince is the time when the last instance was replaced, if a bake time follows.
	BakingSince time.Time `json:",omitzero"`
	// ProgressAt is the time of the last change of the number of remaining instances.
	ProgressAt time.Time `json:",omitzero"`
}

// AutoScalingRefreshProgresses returns the table of progress, by the key of the refresh.
func AutoScalingRefreshProgresses(s *store.Store) store.Table[AutoScalingRefreshProgress] {
	return store.NewTable[AutoScalingRefreshProgress](s, "autoscalingrefreshprogresses")
}

// AutoScalingPolicy is a scaling policy.
//
// Writer: internal/aws/autoscaling.
type AutoScalingPolicy struct {
	ID     string // a UUID, part of the ARN
	Policy astypes.ScalingPolicy
}

// AutoScalingPolicies returns the table of scaling policies, by Key(account, region, group, name).
func AutoScalingPolicies(s *store.Store) store.Table[AutoScalingPolicy] {
	return store.NewTable[AutoScalingPolicy](s, "autoscalingpolicies")
}

// AutoScalingSchedule is a scheduled action.
//
// Writer: internal/aws/autoscaling, also when it is due: the controller calls it then.
type AutoScalingSchedule struct {
	ID     string // a UUID, part of the ARN
	Action astypes.ScheduledUpdateGroupAction
	// Next is the time when the action is due.
	Next time.Time
}

// AutoScalingSchedules returns the table of scheduled actions, by Key(account, region, group, name).
func AutoScalingSchedules(s *store.Store) store.Table[AutoScalingSchedule] {
	return store.NewTable[AutoScalingSchedule](s, "autoscalingschedules")
}
