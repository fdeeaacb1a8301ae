// Package vpcresource gives pods network interfaces of their own, with the security groups of the SecurityGroupPolicy
// objects that select them: the VPC resource controller of EKS.
//
// The controller acts as the user eks:vpc-resource-controller. It follows the nodes, CNINodes and pods of a cluster
// that concern it (watch.go), and reconciles a node at a time: every node has a CNINode (node.go); a node whose CNI
// plugin asks for it, by the feature SecurityGroupsForPods, gets a trunk network interface and says how many branch
// interfaces its pods may have (trunk.go); every pod on it that requests one gets a branch interface, which an
// annotation describes to the plugin (branch.go). Interfaces that no pod has any more are deleted after a cool-down.
// The webhook that has pods request interfaces is internal/kube/vpcresource.
//
// It makes and deletes network interfaces under the role of the cluster, as on EKS, and associates them under the
// service-linked role of EKS. The package reads the tables of clusters and control planes, and writes nothing to the
// store: all state is in the cluster and in EC2, so that nothing is lost when a daemon or an API server dies. What it
// does, and the texts of its events, are upstream's: https://github.com/aws/amazon-vpc-resource-controller-k8s
package vpcresource

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/coracle-eks/coracle/internal/kube/apiserver"
	webhook "github.com/coracle-eks/coracle/internal/kube/vpcresource"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// EC2 is the subset of the EC2 API that the controller uses under the role of a cluster. *ec2.Client implements it.
type EC2 interface {
	AttachNetworkInterface(context.Context, *ec2.AttachNetworkInterfaceInput, ...func(*ec2.Options)) (
		*ec2.AttachNetworkInterfaceOutput, error)
	CreateNetworkInterface(context.Context, *ec2.CreateNetworkInterfaceInput, ...func(*ec2.Options)) (
		*ec2.CreateNetworkInterfaceOutput, error)
	DeleteNetworkInterface(context.Context, *ec2.DeleteNetworkInterfaceInput, ...func(*ec2.Options)) (
		*ec2.DeleteNetworkInterfaceOutput, error)
	DescribeInstances(context.Context, *ec2.DescribeInstancesInput, ...func(*ec2.Options)) (
		*ec2.DescribeInstancesOutput, error)
	DescribeNetworkInterfaces(context.Context, *ec2.DescribeNetworkInterfacesInput, ...func(*ec2.Options)) (
		*ec2.DescribeNetworkInterfacesOutput, error)
	DescribeSubnets(context.Context, *ec2.DescribeSubnetsInput, ...func(*ec2.Options)) (
		*ec2.DescribeSubnetsOutput, error)
	ModifyNetworkInterfaceAttribute(context.Context, *ec2.ModifyNetworkInterfaceAttributeInput, ...func(*ec2.Options)) (
		*ec2.ModifyNetworkInterfaceAttributeOutput, error)
}

// Trunks is the subset of the EC2 API that the controller uses as EKS. *ec2.Client implements it.
type Trunks interface {
	AssociateTrunkInterface(context.Context, *ec2.AssociateTrunkInterfaceInput, ...func(*ec2.Options)) (
		*ec2.AssociateTrunkInterfaceOutput, error)
	DescribeTrunkInterfaceAssociations(context.Context, *ec2.DescribeTrunkInterfaceAssociationsInput,
		...func(*ec2.Options)) (*ec2.DescribeTrunkInterfaceAssociationsOutput, error)
	DisassociateTrunkInterface(context.Context, *ec2.DisassociateTrunkInterfaceInput, ...func(*ec2.Options)) (
		*ec2.DisassociateTrunkInterfaceOutput, error)
}

// Options configures a Controller. All fields but those marked optional must be set.
type Options struct {
	Store *store.Store
	// Config returns the configuration of a client of a cluster's API server, as the given user.
	Config func(ctx context.Context, cluster record.Cluster, user string, groups ...string) (*rest.Config, error)
	// EC2 returns a client with the permissions of the role of a cluster.
	EC2 func(ctx context.Context, cluster record.Cluster) (EC2, error)
	// Trunks returns a client with the permissions of AWSServiceRoleForAmazonEKS in that account.
	Trunks func(account, region string) Trunks
	Clock  clock.PassiveClock // the real one when nil
	Log    *slog.Logger       // slog.Default() when nil
}

// Controller serves all clusters.
type Controller struct {
	o       Options
	servers *apiserver.Connections[*server]
}

// New returns a Controller, which does nothing until it is run.
func New(o Options) *Controller {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return &Controller{o, apiserver.New[*server](apiserver.Options{
		Store: o.Store, Config: o.Config, User: webhook.User, Agent: webhook.UserAgent,
		What: "watch nodes for network interfaces of pods", Log: o.Log,
	})}
}

// Controllers returns the controllers that reconcile.Run runs. A key is that of a cluster followed by the name of a
// node.
func (c *Controller) Controllers() []reconcile.Controller {
	return []reconcile.Controller{{
		Name:       "vpcresources",
		Reconcile:  c.Reconcile,
		Watches:    []reconcile.Watch{c.watch},
		Workers:    16,
		MaxBackoff: 10 * time.Second,

		AccountWorkers: 6, ClusterWorkers: 3, Timeout: time.Minute,
	}}
}

// Reconcile reconciles one node.
func (c *Controller) Reconcile(ctx context.Context, key string) (reconcile.Result, error) {
	parts := store.Parts(key)
	s, connected := c.servers.Get(record.ClusterKey(parts[0], parts[1], parts[2]))
	if !connected {
		return reconcile.Result{Gone: true}, nil // the cluster is gone, or its watch begins anew and tells of the node again
	}
	after, err := s.reconcile(ctx, parts[3])
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("network interfaces of node %s of cluster %s: %w", parts[3], s.cluster.Name,
			err)
	}
	return reconcile.Result{After: after, Gone: after == 0}, nil
}
