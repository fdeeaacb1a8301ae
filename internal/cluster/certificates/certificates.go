// Package certificates decides whether the kubelets of a cluster get the serving certificates that they ask for.
//
// The [Controller] watches the certificate signing requests of every ready cluster, as the user
// eks:certificate-controller, and approves those of the signer kubernetes.io/kubelet-serving which a node makes for itself
// and whose names and addresses are those of the EC2 instance behind it, as EC2's DescribeInstances tells them. A request that
// claims anything else is denied, with the reason in its condition. It reads Clusters and ControlPlanes and writes
// nothing into the store: what was decided stands in the request itself. kube-controller-manager then signs.
package certificates

import (
	"context"
	"log/slog"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"k8s.io/client-go/rest"

	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// user is who EKS is when it decides.
const user = "eks:certificate-controller"

// EC2 is what is asked about instances. *ec2.Client does.
type EC2 interface {
	DescribeInstances(context.Context, *ec2.DescribeInstancesInput, ...func(*ec2.Options)) (*ec2.DescribeInstancesOutput, error)
}

// Options are what a Controller needs. All but those marked optional must be set.
type Options struct {
	Store *store.Store
	// Config is how a user reaches a cluster's API server.
	Config func(ctx context.Context, cluster record.Cluster, user string, groups ...string) (*rest.Config, error)
	// EC2 is a client with the permissions of AWSServiceRoleForAmazonEKS in that account.
	EC2 func(account, region string) EC2
	Log *slog.Logger // slog.Default() when nil
}

// Controller watches the requests of all clusters.
type Controller struct {
	o        Options
	log      *slog.Logger
	clusters store.Table[record.Cluster]
	planes   store.Table[record.ControlPlane]
}

// New makes a controller; nothing happens before it is run.
func New(o Options) *Controller {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return &Controller{o: o, log: o.Log, clusters: record.Clusters(o.Store), planes: record.ControlPlanes(o.Store)}
}

// Controllers is what reconcile.Run runs.
func (c *Controller) Controllers() []reconcile.Controller {
	return []reconcile.Controller{{
		Name:      "certificates",
		Reconcile: func(context.Context, string) (reconcile.Result, error) { return reconcile.Result{}, nil },
		Sources:   []reconcile.Source{reconcile.Table(c.planes, "")},
	}}
}
