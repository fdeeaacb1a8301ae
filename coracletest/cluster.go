//go:build unix

package coracletest

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"golang.org/x/oauth2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"

	"github.com/coracle-eks/coracle/internal/kube/authenticator/authenticatortest"
)

const (
	// clusterTimeout is the time that a cluster or its nodes may take. The first of a Kubernetes version that is not
	// built yet takes minutes.
	clusterTimeout = 10 * time.Minute
	// tokenLife is less than the 14 minutes for which EKS accepts a token.
	tokenLife = 10 * time.Minute
	// nodegroup is the name of the node group that WithNodes asks for.
	nodegroup = "nodes"
)

// ClusterOption changes what [Coracle.Cluster] makes.
type ClusterOption func(*clusterOptions)

type clusterOptions struct {
	version string
	nodes   int32
}

// WithVersion asks for a Kubernetes version, such as "1.35", instead of the default one.
func WithVersion(version string) ClusterOption {
	return func(o *clusterOptions) { o.version = version }
}

// WithNodes asks for a managed node group with that many nodes, which are Ready when the cluster is returned.
func WithNodes(count int) ClusterOption { return func(o *clusterOptions) { o.nodes = int32(count) } }

// Cluster is an EKS cluster of a test. Its methods may be called concurrently.
type Cluster struct {
	// Name is that of the cluster in its account.
	Name string

	coracle *Coracle
	config  *rest.Config
}

// Coracle returns the account that the cluster belongs to.
func (c *Cluster) Coracle() *Coracle { return c.coracle }

// RESTConfig returns a configuration for clients of the cluster, of client-go or of controller-runtime, which act as
// the root of the account: a cluster administrator. It is a copy that the caller may change.
func (c *Cluster) RESTConfig() *rest.Config { return rest.CopyConfig(c.config) }

// Cluster creates an EKS cluster, with roles and in the default VPC of the account, and waits until it is ACTIVE and
// its nodes, if it is to have any, are Ready. It is deleted at the end of the test.
func (c *Coracle) Cluster(t testing.TB, name string, options ...ClusterOption) *Cluster {
	t.Helper()
	t.Cleanup(func() {
		if err := c.deleteCluster(context.Background(), name); err != nil {
			t.Errorf("delete the cluster %s: %v", name, err)
		}
	})
	cluster, err := c.createCluster(t.Context(), name, options)
	if err != nil {
		t.Fatalf("create the cluster %s: %v", name, err)
	}
	return cluster
}

var pool struct {
	mu       sync.Mutex
	clusters map[clusterOptions]*Cluster
}

// SharedCluster returns a cluster that all tests of the binary share which ask for it with the same options. It is made
// for the first of them, in an account of its own, and ends with the test binary. Tests that run in parallel there keep
// apart by [Cluster.Namespace].
func SharedCluster(t testing.TB, options ...ClusterOption) *Cluster {
	t.Helper()
	c := Start(t)
	var key clusterOptions
	for _, option := range options {
		option(&key)
	}
	pool.mu.Lock()
	defer pool.mu.Unlock()
	if cluster := pool.clusters[key]; cluster != nil {
		return cluster
	}
	cluster, err := c.createCluster(t.Context(), "shared", options)
	if err != nil {
		t.Fatalf("create a shared cluster: %v", err)
	}
	if pool.clusters == nil {
		pool.clusters = make(map[clusterOptions]*Cluster)
	}
	pool.clusters[key] = cluster
	return cluster
}

// Namespace creates a namespace for the test and returns its name. It is deleted at the end of the test.
func (c *Cluster) Namespace(t testing.TB) string {
	t.Helper()
	client, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		t.Fatal(err)
	}
	namespaces := client.CoreV1().Namespaces()
	namespace, err := namespaces.Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create a namespace: %v", err)
	}
	t.Cleanup(func() {
		if err := namespaces.Delete(context.Background(), namespace.Name, metav1.DeleteOptions{}); err != nil {
			t.Errorf("delete the namespace %s: %v", namespace.Name, err)
		}
	})
	return namespace.Name
}

// withoutControlPlanes is the ID of the zone of us-east-1 in which EKS has no control planes.
const withoutControlPlanes = "use1-az3"

func (c *Coracle) createCluster(ctx context.Context, name string, options []ClusterOption) (*Cluster, error) {
	var o clusterOptions
	for _, option := range options {
		option(&o)
	}
	role, err := c.createRole(ctx, name+"-cluster", "eks.amazonaws.com", "AmazonEKSClusterPolicy")
	if err != nil {
		return nil, err
	}
	subnets, err := ec2.NewFromConfig(c.AWSConfig()).DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{
		Filters: []ec2types.Filter{{Name: aws.String("default-for-az"), Values: []string{"true"}}}})
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, subnet := range subnets.Subnets {
		if *subnet.AvailabilityZoneId != withoutControlPlanes {
			ids = append(ids, *subnet.SubnetId)
		}
	}
	client := eks.NewFromConfig(c.AWSConfig())
	in := &eks.CreateClusterInput{Name: &name, RoleArn: &role,
		ResourcesVpcConfig: &ekstypes.VpcConfigRequest{SubnetIds: ids},
		AccessConfig: &ekstypes.CreateAccessConfigRequest{
			AuthenticationMode: ekstypes.AuthenticationModeApiAndConfigMap}}
	if o.version != "" {
		in.Version = &o.version
	}
	if _, err := client.CreateCluster(ctx, in); err != nil {
		return nil, err
	}
	out, err := eks.NewClusterActiveWaiter(client, func(o *eks.ClusterActiveWaiterOptions) {
		o.MinDelay, o.MaxDelay = 100*time.Millisecond, time.Second
	}).WaitForOutput(ctx, &eks.DescribeClusterInput{Name: &name}, clusterTimeout)
	if err != nil {
		return nil, err
	}
	authority, err := base64.StdEncoding.DecodeString(*out.Cluster.CertificateAuthority.Data)
	if err != nil {
		return nil, err
	}
	tokens := transport.NewCachedTokenSource(&tokenSource{name, c.AWSConfig()})
	cluster := &Cluster{Name: name, coracle: c, config: &rest.Config{
		Host: *out.Cluster.Endpoint, TLSClientConfig: rest.TLSClientConfig{CAData: authority},
		WrapTransport: func(next http.RoundTripper) http.RoundTripper {
			return transport.TokenSourceWrapTransport(tokens)(next)
		},
		QPS: -1, // tests wait for nobody but the API server
	}}
	if o.nodes == 0 {
		return cluster, nil
	}
	return cluster, c.createNodegroup(ctx, name, o.nodes, ids)
}

func (c *Coracle) createNodegroup(ctx context.Context, cluster string, count int32, subnets []string) error {
	role, err := c.createRole(ctx, cluster+"-node", "ec2.amazonaws.com", "AmazonEKSWorkerNodePolicy",
		"AmazonEC2ContainerRegistryPullOnly", "AmazonEKS_CNI_Policy")
	if err != nil {
		return err
	}
	client := eks.NewFromConfig(c.AWSConfig())
	if _, err := client.CreateNodegroup(ctx, &eks.CreateNodegroupInput{
		ClusterName: &cluster, NodegroupName: aws.String(nodegroup), NodeRole: &role, Subnets: subnets,
		ScalingConfig: &ekstypes.NodegroupScalingConfig{MinSize: &count, MaxSize: &count, DesiredSize: &count},
	}); err != nil {
		return err
	}
	describe := &eks.DescribeNodegroupInput{ClusterName: &cluster, NodegroupName: aws.String(nodegroup)}
	err = eks.NewNodegroupActiveWaiter(client, func(o *eks.NodegroupActiveWaiterOptions) {
		o.MinDelay, o.MaxDelay = 100*time.Millisecond, time.Second
	}).Wait(ctx, describe, clusterTimeout)
	if err == nil {
		return nil
	}
	if out, failed := client.DescribeNodegroup(ctx, describe); failed == nil {
		for _, issue := range out.Nodegroup.Health.Issues {
			err = fmt.Errorf("%w; %s: %s", err, issue.Code, aws.ToString(issue.Message))
		}
	}
	return err
}

// createRole creates a role that a service may assume, with policies of AWS.
func (c *Coracle) createRole(ctx context.Context, name, service string, policies ...string) (arn string, err error) {
	client := iam.NewFromConfig(c.AWSConfig())
	out, err := client.CreateRole(ctx, &iam.CreateRoleInput{RoleName: &name, AssumeRolePolicyDocument: aws.String(
		`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"` + service +
			`"},"Action":"sts:AssumeRole"}]}`)})
	if err != nil {
		return "", err
	}
	for _, policy := range policies {
		if _, err := client.AttachRolePolicy(ctx, &iam.AttachRolePolicyInput{RoleName: &name,
			PolicyArn: aws.String("arn:aws:iam::aws:policy/" + policy)}); err != nil {
			return "", err
		}
	}
	return *out.Role.Arn, nil
}

// deleteCluster deletes a cluster with its node groups, as far as they are there.
func (c *Coracle) deleteCluster(ctx context.Context, name string) error {
	client := eks.NewFromConfig(c.AWSConfig())
	groups, err := client.ListNodegroups(ctx, &eks.ListNodegroupsInput{ClusterName: &name})
	if isNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, group := range groups.Nodegroups {
		if _, err := client.DeleteNodegroup(ctx,
			&eks.DeleteNodegroupInput{ClusterName: &name, NodegroupName: &group}); err != nil && !isNotFound(err) {
			return err
		}
	}
	for _, group := range groups.Nodegroups {
		if err := eks.NewNodegroupDeletedWaiter(client, func(o *eks.NodegroupDeletedWaiterOptions) {
			o.MinDelay, o.MaxDelay = 100*time.Millisecond, time.Second
		}).Wait(ctx, &eks.DescribeNodegroupInput{ClusterName: &name, NodegroupName: &group}, clusterTimeout); err != nil {
			return fmt.Errorf("wait until the node group %s is deleted: %w", group, err)
		}
	}
	if _, err := client.DeleteCluster(ctx, &eks.DeleteClusterInput{Name: &name}); err != nil && !isNotFound(err) {
		return err
	}
	return eks.NewClusterDeletedWaiter(client, func(o *eks.ClusterDeletedWaiterOptions) {
		o.MinDelay, o.MaxDelay = 100*time.Millisecond, time.Second
	}).Wait(ctx, &eks.DescribeClusterInput{Name: &name}, clusterTimeout)
}

func isNotFound(err error) bool {
	_, ok := errors.AsType[*ekstypes.ResourceNotFoundException](err)
	return ok
}

// tokenSource makes bearer tokens of a cluster, as "aws eks get-token" does.
type tokenSource struct {
	cluster string
	config  aws.Config
}

func (s *tokenSource) Token() (*oauth2.Token, error) {
	token, err := authenticatortest.Token(context.Background(), s.config, s.cluster)
	return &oauth2.Token{AccessToken: token, Expiry: time.Now().Add(tokenLife)}, err
}
