// Package kubeletcsr approves or denies the certificate signing requests of kubelets for their serving certificates.
//
// The controller acts as the user eks:certificate-controller. It watches the certificate signing requests of every
// ready cluster for the signer kubernetes.io/kubelet-serving (watch.go) and validates each one (decide.go). It approves
// a request that a node creates for itself, if DescribeInstances reports the requested names and addresses for the EC2
// instance of the node, with the message that EKS uses; what the node of a Fargate pod may have is in the record of
// the pod's capacity. It denies a node that claims anything else, and records the reason in the condition of the
// request. Requests of other users are left to the administrator of the cluster. kube-controller-manager signs approved
// requests.
//
// The package reads the tables of clusters, control planes and Fargate pods, and writes nothing to the store: the
// decision is recorded in the request itself, so that nothing is lost when a daemon or an API server dies.
//
// https://docs.aws.amazon.com/eks/latest/userguide/cert-signing.html
package kubeletcsr

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/coracle-eks/coracle/internal/kube/apiserver"
	"github.com/coracle-eks/coracle/internal/reconcile"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

const (
	// user is the user name of EKS when it decides, and userAgent its user agent in the audit log.
	user      = "eks:certificate-controller"
	userAgent = "eks-certificates-controller/v0.0.0 (linux/amd64) kubernetes/$Format"
)

// EC2 is the subset of the EC2 API that the controller uses. *ec2.Client implements it.
type EC2 interface {
	DescribeInstances(context.Context, *ec2.DescribeInstancesInput,
		...func(*ec2.Options)) (*ec2.DescribeInstancesOutput, error)
}

// Options configures a Controller. All fields but those marked optional must be set.
type Options struct {
	Store *store.Store
	// Config returns the configuration of a client of a cluster's API server, as the given user.
	Config func(ctx context.Context, cluster record.Cluster, user string, groups ...string) (*rest.Config, error)
	// EC2 is a client with the permissions of AWSServiceRoleForAmazonEKS in that account.
	EC2 func(account, region string) EC2
	Log *slog.Logger // slog.Default() when nil
}

// Controller decides about the requests of all clusters.
type Controller struct {
	o       Options
	log     *slog.Logger
	servers *apiserver.Connections[*client]
}

// New returns a Controller, which does nothing until it is run.
func New(o Options) *Controller {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return &Controller{o: o, log: o.Log, servers: apiserver.New[*client](apiserver.Options{
		Store: o.Store, Config: o.Config, User: user, Agent: userAgent, What: "watch certificate signing requests",
		Log: o.Log,
	})}
}

// Controllers returns the controllers that reconcile.Run runs. A key is that of a cluster followed by the name of a
// request.
func (c *Controller) Controllers() []reconcile.Controller {
	return []reconcile.Controller{{
		Name:       "certificates",
		Reconcile:  c.Reconcile,
		Watches:    []reconcile.Watch{c.watchRequests},
		Workers:    32,
		MaxBackoff: 10 * time.Second,

		AccountWorkers: 8, ClusterWorkers: 4, Timeout: time.Minute,
	}}
}

// patience is the time that an instance that EC2 does not know yet may take to appear.
const patience = 2 * time.Minute

// Reconcile decides about one request.
func (c *Controller) Reconcile(ctx context.Context, key string) (reconcile.Result, error) {
	parts := store.Parts(key)
	return c.decide(ctx, record.ClusterKey(parts[0], parts[1], parts[2]), parts[3])
}

// decide approves or denies one request of a cluster, if it is a kubelet's and nobody has.
func (c *Controller) decide(ctx context.Context, clusterKey, name string) (reconcile.Result, error) {
	done := reconcile.Result{Gone: true}
	k, connected := c.servers.Get(clusterKey)
	if !connected {
		return done, nil // the cluster is gone, or its watch begins anew and tells of the request again
	}
	request, err := k.certificates.CertificateSigningRequests().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return done, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	if len(request.Status.Conditions) > 0 || request.Spec.SignerName != certificatesv1.KubeletServingSignerName {
		return done, nil // decided before
	}
	claim, refused := parseRequest(request)
	if claim == nil && refused == "" {
		return done, nil // not a node's
	}
	if refused == "" {
		var instances []instance
		if instances, err = c.instances(ctx, k.cluster, claim); err != nil {
			return reconcile.Result{}, err
		}
		if len(instances) == 0 && time.Since(request.CreationTimestamp.Time) < patience {
			return reconcile.Result{}, fmt.Errorf(
				"certificate signing request %s of cluster %s: EC2 knows no running instance that is %s", name,
				k.cluster.Name, claim.node)
		}
		refused = claim.verifyAny(instances)
	}
	if refused == "" {
		if refused, err = k.reviewAccess(ctx, request); err != nil {
			return reconcile.Result{}, err
		}
	}
	condition := certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue,
		Reason: "AutoApproved", Message: "Auto approving self kubelet server certificate after SubjectAccessReview.",
	}
	if refused != "" {
		condition.Type, condition.Reason, condition.Message = certificatesv1.CertificateDenied,
			"InvalidKubeletServingRequest", refused
		c.log.Warn("a node is refused a serving certificate", "cluster", k.cluster.Name, "request", name, "user",
			request.Spec.Username, "reason", refused)
	}
	request.Status.Conditions = append(request.Status.Conditions, condition)
	_, err = k.certificates.CertificateSigningRequests().UpdateApproval(ctx, name, request, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		err = nil
	}
	return done, err
}

// reviewAccess asks whether the node may have a certificate of its own at all, as RBAC says (eks:node-bootstrapper).
func (k *client) reviewAccess(ctx context.Context, request *certificatesv1.CertificateSigningRequest) (
	refused string, err error) {
	extra := map[string]authorizationv1.ExtraValue{}
	for name, value := range request.Spec.Extra {
		extra[name] = authorizationv1.ExtraValue(value)
	}
	review, err := k.authorization.SubjectAccessReviews().Create(ctx,
		&authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: request.Spec.Username, UID: request.Spec.UID, Groups: request.Spec.Groups, Extra: extra,
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Group: certificatesv1.GroupName, Resource: "certificatesigningrequests", Subresource: "selfnodeserver",
				Verb: "create", Version: "*",
			},
		}}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	if review.Status.Allowed {
		return "", nil
	}
	if review.Status.EvaluationError != "" {
		return "", errors.New(review.Status.EvaluationError)
	}
	return request.Spec.Username + " may not create certificatesigningrequests/selfnodeserver", nil
}
