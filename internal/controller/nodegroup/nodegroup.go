// Package nodegroup reconciles EKS managed node groups.
//
// The API layer (internal/aws/eks) records the desired state, a [record.Nodegroup], and an update in progress, a
// [record.Update]. The [Controller] calls the AWS APIs under AWSServiceRoleForAmazonEKSNodegroup and the API server of
// the cluster as the user eks:node-manager. It
//
//   - grants the node role access to the cluster (awsauth.go, accessentry.go),
//   - creates an instance profile, a launch template and an Auto Scaling group (profile.go, template.go, userdata.go,
//     scaling.go),
//   - waits for its nodes to become Ready (join.go), and reconciles the labels and taints of live nodes (labels.go),
//   - runs version updates in four phases (update.go, setup.go, scaleup.go, upgrade.go, scaledown.go),
//   - drains nodes that are terminated for another reason (drainterminating.go), waits until load balancers have
//     forgotten them (loadbalancer.go), and repairs unhealthy nodes (repair.go),
//   - reports health issues (health.go), and deletes all that it created with the group (delete.go).
//
// It records its observations and its progress in [record.NodegroupState], of which it is the only writer; it also ends
// updates and deletes the Nodegroup record. It finds resources by name and tag before it creates them, so that it may
// be killed at any instruction.
//
// A change of a record (of a group, of its Auto Scaling group or instances, of an update) or of a node (nodes.go)
// starts a reconcile pass: an idle group costs nothing.
//
// https://docs.aws.amazon.com/eks/latest/userguide/managed-node-groups.html
package nodegroup

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"k8s.io/client-go/rest"

	"github.com/coracle-eks/coracle/internal/kube/apiserver"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

const (
	// user is the user name of EKS in a cluster when it manages node groups, agent its field manager, and userAgent its
	// user agent in the audit log.
	user      = "eks:node-manager"
	agent     = "vpcLambda"
	userAgent = agent + "/v0.0.0 (linux/amd64) kubernetes/$Format"
)

// ServiceLinkedRole is the name of the role in which EKS manages node groups: Options have clients with its
// permissions.
// https://docs.aws.amazon.com/eks/latest/userguide/using-service-linked-roles-eks-nodegroups.html
const ServiceLinkedRole = "AWSServiceRoleForAmazonEKSNodegroup"

// The labels and tags by which a group's nodes, and what EKS made for it, are known.
const (
	groupLabel      = "eks.amazonaws.com/nodegroup"
	groupTag        = "eks:nodegroup-name"
	clusterTag      = "eks:cluster-name"
	ownedTagPrefix  = "kubernetes.io/cluster/"
	autoscalerTag   = "k8s.io/cluster-autoscaler/enabled"
	autoscalerOwned = "k8s.io/cluster-autoscaler/"
)

// EC2 is the subset of the EC2 API that node groups use. *ec2.Client implements it.
type EC2 interface {
	DescribeLaunchTemplates(context.Context, *ec2.DescribeLaunchTemplatesInput,
		...func(*ec2.Options)) (*ec2.DescribeLaunchTemplatesOutput, error)
	DescribeLaunchTemplateVersions(context.Context, *ec2.DescribeLaunchTemplateVersionsInput,
		...func(*ec2.Options)) (*ec2.DescribeLaunchTemplateVersionsOutput, error)
	CreateLaunchTemplate(context.Context, *ec2.CreateLaunchTemplateInput,
		...func(*ec2.Options)) (*ec2.CreateLaunchTemplateOutput, error)
	CreateLaunchTemplateVersion(context.Context, *ec2.CreateLaunchTemplateVersionInput,
		...func(*ec2.Options)) (*ec2.CreateLaunchTemplateVersionOutput, error)
	DeleteLaunchTemplate(context.Context, *ec2.DeleteLaunchTemplateInput,
		...func(*ec2.Options)) (*ec2.DeleteLaunchTemplateOutput, error)

	DescribeSubnets(context.Context, *ec2.DescribeSubnetsInput, ...func(*ec2.Options)) (*ec2.DescribeSubnetsOutput,
		error)
	DescribeImages(context.Context, *ec2.DescribeImagesInput, ...func(*ec2.Options)) (*ec2.DescribeImagesOutput, error)
	DescribeInstances(context.Context, *ec2.DescribeInstancesInput,
		...func(*ec2.Options)) (*ec2.DescribeInstancesOutput, error)
	RebootInstances(context.Context, *ec2.RebootInstancesInput, ...func(*ec2.Options)) (*ec2.RebootInstancesOutput,
		error)

	DescribeSecurityGroups(context.Context, *ec2.DescribeSecurityGroupsInput,
		...func(*ec2.Options)) (*ec2.DescribeSecurityGroupsOutput, error)
	CreateSecurityGroup(context.Context, *ec2.CreateSecurityGroupInput,
		...func(*ec2.Options)) (*ec2.CreateSecurityGroupOutput, error)
	RevokeSecurityGroupIngress(context.Context, *ec2.RevokeSecurityGroupIngressInput,
		...func(*ec2.Options)) (*ec2.RevokeSecurityGroupIngressOutput, error)
	AuthorizeSecurityGroupIngress(context.Context, *ec2.AuthorizeSecurityGroupIngressInput,
		...func(*ec2.Options)) (*ec2.AuthorizeSecurityGroupIngressOutput, error)
	DeleteSecurityGroup(context.Context, *ec2.DeleteSecurityGroupInput,
		...func(*ec2.Options)) (*ec2.DeleteSecurityGroupOutput, error)
}

// AutoScaling is the part of Amazon EC2 Auto Scaling that a node group needs; *autoscaling.Client implements it.
type AutoScaling interface {
	DescribeAutoScalingGroups(context.Context, *autoscaling.DescribeAutoScalingGroupsInput,
		...func(*autoscaling.Options)) (*autoscaling.DescribeAutoScalingGroupsOutput, error)
	CreateAutoScalingGroup(context.Context, *autoscaling.CreateAutoScalingGroupInput, ...func(*autoscaling.Options)) (
		*autoscaling.CreateAutoScalingGroupOutput, error)
	UpdateAutoScalingGroup(context.Context, *autoscaling.UpdateAutoScalingGroupInput, ...func(*autoscaling.Options)) (
		*autoscaling.UpdateAutoScalingGroupOutput, error)
	DeleteAutoScalingGroup(context.Context, *autoscaling.DeleteAutoScalingGroupInput, ...func(*autoscaling.Options)) (
		*autoscaling.DeleteAutoScalingGroupOutput, error)
	CreateOrUpdateTags(context.Context, *autoscaling.CreateOrUpdateTagsInput, ...func(*autoscaling.Options)) (
		*autoscaling.CreateOrUpdateTagsOutput, error)
	DeleteTags(context.Context, *autoscaling.DeleteTagsInput, ...func(*autoscaling.Options)) (
		*autoscaling.DeleteTagsOutput, error)
	DescribeScalingActivities(context.Context, *autoscaling.DescribeScalingActivitiesInput,
		...func(*autoscaling.Options)) (*autoscaling.DescribeScalingActivitiesOutput, error)
	TerminateInstanceInAutoScalingGroup(context.Context, *autoscaling.TerminateInstanceInAutoScalingGroupInput,
		...func(*autoscaling.Options)) (*autoscaling.TerminateInstanceInAutoScalingGroupOutput, error)
	CompleteLifecycleAction(context.Context, *autoscaling.CompleteLifecycleActionInput, ...func(*autoscaling.Options)) (
		*autoscaling.CompleteLifecycleActionOutput, error)
	PutLifecycleHook(context.Context, *autoscaling.PutLifecycleHookInput, ...func(*autoscaling.Options)) (
		*autoscaling.PutLifecycleHookOutput, error)
	DescribeLifecycleHooks(context.Context, *autoscaling.DescribeLifecycleHooksInput, ...func(*autoscaling.Options)) (
		*autoscaling.DescribeLifecycleHooksOutput, error)
	SuspendProcesses(context.Context, *autoscaling.SuspendProcessesInput, ...func(*autoscaling.Options)) (
		*autoscaling.SuspendProcessesOutput, error)
	ResumeProcesses(context.Context, *autoscaling.ResumeProcessesInput, ...func(*autoscaling.Options)) (
		*autoscaling.ResumeProcessesOutput, error)
	PutWarmPool(context.Context, *autoscaling.PutWarmPoolInput, ...func(*autoscaling.Options)) (
		*autoscaling.PutWarmPoolOutput, error)
	DescribeWarmPool(context.Context, *autoscaling.DescribeWarmPoolInput, ...func(*autoscaling.Options)) (
		*autoscaling.DescribeWarmPoolOutput, error)
	DeleteWarmPool(context.Context, *autoscaling.DeleteWarmPoolInput, ...func(*autoscaling.Options)) (
		*autoscaling.DeleteWarmPoolOutput, error)
}

// IAM is the part of IAM that a node group needs; *iam.Client implements it.
type IAM interface {
	GetRole(context.Context, *iam.GetRoleInput, ...func(*iam.Options)) (*iam.GetRoleOutput, error)
	GetInstanceProfile(context.Context, *iam.GetInstanceProfileInput,
		...func(*iam.Options)) (*iam.GetInstanceProfileOutput, error)
	CreateInstanceProfile(context.Context, *iam.CreateInstanceProfileInput,
		...func(*iam.Options)) (*iam.CreateInstanceProfileOutput, error)
	AddRoleToInstanceProfile(context.Context, *iam.AddRoleToInstanceProfileInput,
		...func(*iam.Options)) (*iam.AddRoleToInstanceProfileOutput, error)
	RemoveRoleFromInstanceProfile(context.Context, *iam.RemoveRoleFromInstanceProfileInput,
		...func(*iam.Options)) (*iam.RemoveRoleFromInstanceProfileOutput, error)
	DeleteInstanceProfile(context.Context, *iam.DeleteInstanceProfileInput,
		...func(*iam.Options)) (*iam.DeleteInstanceProfileOutput, error)
}

// EKS is the part of Amazon EKS that a node group needs to grant its role access; *eks.Client implements it.
type EKS interface {
	DescribeAccessEntry(context.Context, *eks.DescribeAccessEntryInput,
		...func(*eks.Options)) (*eks.DescribeAccessEntryOutput, error)
	CreateAccessEntry(context.Context, *eks.CreateAccessEntryInput,
		...func(*eks.Options)) (*eks.CreateAccessEntryOutput, error)
	DeleteAccessEntry(context.Context, *eks.DeleteAccessEntryInput,
		...func(*eks.Options)) (*eks.DeleteAccessEntryOutput, error)
}

// Options configures a Controller. All fields but those marked optional must be set.
type Options struct {
	Store *store.Store
	// Config returns the configuration of a client of a cluster's API server, as the given user.
	Config func(ctx context.Context, cluster record.Cluster, user string, groups ...string) (*rest.Config, error)
	// The clients have the permissions of AWSServiceRoleForAmazonEKSNodegroup in that account.
	EC2         func(account, region string) EC2
	AutoScaling func(account, region string) AutoScaling
	IAM         func(account string) IAM
	EKS         func(account, region string) EKS
	// JoinTimeout is the time that an instance may take to become a Ready node; 20 minutes when 0. DrainTimeout is the
	// time that pods may stay on a node that is drained; 15 minutes when 0.
	JoinTimeout, DrainTimeout time.Duration
	Now                       func() time.Time // time.Now when nil
	Log                       *slog.Logger     // slog.Default() when nil
}

// Controller reconciles the node groups of all clusters.
type Controller struct {
	o          Options
	log        *slog.Logger
	now        func() time.Time
	groups     store.Table[record.Nodegroup]
	states     store.Table[record.NodegroupState]
	updates    store.Table[record.Update]
	clusters   store.Table[record.Cluster]
	planes     store.Table[record.ControlPlane]
	scaling    store.Table[record.AutoScalingGroup]
	members    store.Table[record.AutoScalingInstance]
	activities store.Table[record.AutoScalingActivity]
	instances  store.Table[record.Instance]
	machines   store.Table[record.Machine]
	// targets, balancers and healths tell which load balancers know a node.
	targets   store.Table[record.TargetGroup]
	balancers store.Table[record.LoadBalancer]
	healths   store.Table[record.TargetHealth]
	servers   *apiserver.Connections[*server]
	// ofCluster gives the keys of the groups of a cluster, from its key or from the key of what belongs to it.
	ofCluster func(key string) []string

	mu   sync.Mutex
	keys map[string]string // keys of groups by their IDs, of those that were looked at
}

// New returns a Controller, which does nothing until it is run.
func New(o Options) *Controller {
	if o.JoinTimeout == 0 {
		o.JoinTimeout = 20 * time.Minute
	}
	if o.DrainTimeout == 0 {
		o.DrainTimeout = 15 * time.Minute
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	c := &Controller{
		o: o, log: o.Log, now: func() time.Time { return o.Now().UTC() }, keys: map[string]string{},
		groups: record.Nodegroups(o.Store), states: record.NodegroupStates(o.Store), updates: record.Updates(o.Store),
		clusters: record.Clusters(o.Store), planes: record.ControlPlanes(o.Store),
		scaling: record.AutoScalingGroups(o.Store), members: record.AutoScalingInstances(o.Store),
		activities: record.AutoScalingActivities(o.Store), instances: record.Instances(o.Store),
		machines: record.Machines(o.Store),
		targets:  record.TargetGroups(o.Store), balancers: record.LoadBalancers(o.Store),
		healths: record.TargetHealths(o.Store),
	}
	c.ofCluster = reconcile.Below(c.groups, record.ClusterKeyParts)
	c.servers = apiserver.New[*server](apiserver.Options{
		Store: o.Store, Config: o.Config, User: user, Agent: userAgent, What: "watch the nodes of node groups", Log: o.Log,
		Wanted: c.hasGroups, Wakes: reconcile.Mapped(c.groups, "", reconcile.Above(record.ClusterKeyParts)),
	})
	return c
}

// Controllers returns what reconcile.Run runs. A key is that of a node group.
func (c *Controller) Controllers() []reconcile.Controller {
	return []reconcile.Controller{{
		Name:      "nodegroup",
		Reconcile: c.Reconcile,
		Sources: []reconcile.Source{
			reconcile.Table(c.groups, ""),
			reconcile.Table(c.states, ""),
			reconcile.Mapped(c.updates, "", c.ofUpdate),
			reconcile.Mapped(c.clusters, "", c.ofCluster),
			reconcile.Mapped(c.planes, "", c.ofCluster),
			reconcile.Mapped(record.AccessEntries(c.o.Store), "", c.ofCluster),
			depends(c, record.Roles(c.o.Store)),
			depends(c, record.InstanceProfiles(c.o.Store)),
			depends(c, record.LaunchTemplates(c.o.Store)),
			depends(c, record.SecurityGroups(c.o.Store)),
			depends(c, record.Subnets(c.o.Store)),
			reconcile.Mapped(c.scaling, "", c.ofScalingGroup),
			reconcile.Mapped(c.activities, "", c.ofScalingGroup),
			reconcile.Mapped(c.members, "", c.ofMember),
			reconcile.Mapped(c.instances, "", c.ofInterrupted),
			reconcile.Mapped(c.machines, "", c.ofFailing),
			c.watchNodes,
		},
		Workers:    32,
		Resync:     10 * time.Minute,
		MaxBackoff: 30 * time.Second,

		AccountWorkers: 8, ClusterWorkers: 4, Timeout: 5 * time.Minute,
	}}
}
