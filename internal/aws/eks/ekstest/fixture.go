// Package ekstest is the fixture of the tests of the EKS API: the whole service behind an HTTP server, with a client of
// AWS's SDK, and with the records of IAM and EC2 that EKS reads. Tests play the controllers: they write what a
// controller would have observed.
package ekstest

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/google/go-cmp/cmp"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	ec2service "github.com/coracle-eks/coracle/internal/aws/ec2"
	coracle "github.com/coracle-eks/coracle/internal/aws/eks"
	"github.com/coracle-eks/coracle/internal/aws/eks/principal"
	kmsapi "github.com/coracle-eks/coracle/internal/aws/kms"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/store/storetest"
	"github.com/coracle-eks/coracle/test/awsclient"
)

// The account and region of the tests, its root user, and roles.
const (
	Account = "111122223333"
	Region  = "eu-west-1"
	RoleARN = "arn:aws:iam::" + Account + ":role/eks-service"
	RootARN = "arn:aws:iam::" + Account + ":root"

	IRSARole = "arn:aws:iam::" + Account + ":role/irsa" // for service accounts, by OIDC
	PodRole  = "arn:aws:iam::" + Account + ":role/pods" // by EKS Pod Identity

	CapabilityRole      = "arn:aws:iam::" + Account + ":role/capability" // for EKS capabilities
	OtherCapabilityRole = "arn:aws:iam::" + Account + ":role/other-capability"
)

// Today is in standard support of 1.34 to 1.36 and in extended support of 1.33.
var Today = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// Fixture is the EKS API behind an HTTP server, with the records of IAM and EC2 that it reads.
type Fixture struct {
	T       testing.TB
	Store   *store.Store
	Client  *eks.Client
	EC2     *ec2.Client
	KMS     *kms.Client
	Catalog Catalog
	URL     string

	*awstest.Judge
	Linked []string // the service-linked roles that were created: account/service
	// MayAdd is the service's MayAddCluster; nil for always.
	MayAdd func(ofAccount, all int) bool
}

// NewUnserved returns a fixture without a store and a server.
func NewUnserved(t testing.TB) *Fixture {
	return &Fixture{T: t, Judge: awstest.NewJudge()}
}

// ServiceLinkedRoles returns what records the service-linked roles that are asked for.
func (f *Fixture) ServiceLinkedRoles() principal.ServiceLinkedRoles { return links{f} }

// Authorizer returns what allows what Deny does not refuse, and records what it was asked.
func (f *Fixture) Authorizer() wire.Authorizer { return f.Judge }

// New serves the EKS API over a store of its own.
func New(t testing.TB) *Fixture {
	t.Helper()
	f := NewUnserved(t)
	f.Store = storetest.New(t)
	f.Seed()
	var err error
	if f.Catalog, err = OpenCatalog(); err != nil {
		t.Fatal(err)
	}
	mux := wire.NewMux(wire.Options{Credentials: f.Judge, Authorizer: f.Judge, Region: Region})
	keys := kmsapi.New(kmsapi.Options{Store: f.Store})
	keys.Register(mux)
	machines := ec2service.New(ec2service.Options{Store: f.Store, Keys: keys})
	machines.Register(mux)
	coracle.New(coracle.Options{
		KMS: keys, Store: f.Store, EC2: machines, ServiceLinkedRoles: links{f}, Catalog: f.Catalog,
		Now:           func() time.Time { return Today },
		MayAddCluster: func(ofAccount, all int) bool { return f.MayAdd == nil || f.MayAdd(ofAccount, all) },
	}).Register(mux)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	f.URL = server.URL
	f.Client = eks.New(eks.Options{
		Region:           Region,
		BaseEndpoint:     aws.String(server.URL),
		Credentials:      credentials.NewStaticCredentialsProvider("AKIAROOT", "secret", ""),
		RetryMaxAttempts: 1,
		HTTPClient:       awsclient.HTTP(),
	})
	f.KMS = kms.New(kms.Options{
		Region: Region, BaseEndpoint: aws.String(server.URL),
		Credentials: credentials.NewStaticCredentialsProvider("AKIAROOT", "secret", ""), RetryMaxAttempts: 1,
		HTTPClient: awsclient.HTTP(),
	})
	f.EC2 = ec2.New(ec2.Options{
		Region: Region, BaseEndpoint: aws.String(server.URL),
		Credentials: credentials.NewStaticCredentialsProvider("AKIAROOT", "secret", ""), RetryMaxAttempts: 1,
		HTTPClient: awsclient.HTTP(),
	})
	return f
}

type links struct{ *Fixture }

func (l links) Ensure(_ context.Context, account, service string) error {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	l.Linked = append(l.Linked, account+"/"+service)
	return nil
}

// Target returns the last target that was judged for an action.
func (f *Fixture) Target(action string) wire.Target {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	for _, t := range slices.Backward(f.Asked) {
		if t.Action == action {
			return t
		}
	}
	f.T.Fatalf("nobody was asked about %s", action)
	return wire.Target{}
}

// Put writes an object, as its owner would.
func Put[T any](t testing.TB, table store.Table[T], key string, v T) {
	t.Helper()
	if _, err := table.Put(t.Context(), key, v); err != nil {
		t.Fatal(err)
	}
}

// Seed writes a VPC 10.0.0.0/16 with subnets a, b (zone a and b), a2 (zone a) and a group, another VPC in
// 192.168.0.0/16 with IPv6, and roles and users.
func (f *Fixture) Seed() {
	resource := func(id string) record.EC2Resource {
		return record.EC2Resource{Account: Account, Region: Region, ID: id}
	}
	vpc := func(id, cidr, v6 string) {
		v := record.VPC{EC2Resource: resource(id), CIDRs: []record.CIDRAssociation{{CIDR: cidr}}}
		if v6 != "" {
			v.IPv6CIDRs = []record.CIDRAssociation{{CIDR: v6}}
		}
		Put(f.T, record.VPCs(f.Store), v.Key(), v)
	}
	subnet := func(id, vpc, zone, cidr, v6 string) {
		s := record.Subnet{EC2Resource: resource(id), VPCID: vpc, AvailabilityZone: Region + zone, CIDR: cidr}
		if v6 != "" {
			s.IPv6 = &record.CIDRAssociation{CIDR: v6}
		}
		Put(f.T, record.Subnets(f.Store), s.Key(), s)
	}
	group := func(id, vpc string) {
		g := record.SecurityGroup{EC2Resource: resource(id), VPCID: vpc}
		Put(f.T, record.SecurityGroups(f.Store), g.Key(), g)
	}
	vpc("vpc-1", "10.0.0.0/16", "")
	subnet("subnet-a", "vpc-1", "a", "10.0.1.0/24", "")
	subnet("subnet-b", "vpc-1", "b", "10.0.2.0/24", "")
	subnet("subnet-c", "vpc-1", "c", "10.0.3.0/24", "")
	subnet("subnet-a2", "vpc-1", "a", "10.0.4.0/24", "")
	for i := range 6 {
		group(fmt.Sprintf("sg-%d", i), "vpc-1")
	}
	standard := record.SecurityGroup{EC2Resource: resource("sg-default"), VPCID: "vpc-1", Name: "default"}
	Put(f.T, record.SecurityGroups(f.Store), standard.Key(), standard)
	vpc("vpc-2", "192.168.0.0/16", "2a05:d018::/56")
	subnet("subnet-2a", "vpc-2", "a", "192.168.1.0/24", "2a05:d018::/64")
	subnet("subnet-2b", "vpc-2", "b", "192.168.2.0/24", "2a05:d018:0:1::/64")
	subnet("subnet-2c", "vpc-2", "c", "192.168.3.0/24", "")
	group("sg-other", "vpc-2")

	trust := func(statement string) string { return `{"Version":"2012-10-17","Statement":[` + statement + `]}` }
	role := func(path, name, document string) {
		r := record.Role{Account: Account, Path: path, Name: name, Trust: document}
		Put(f.T, record.Roles(f.Store), record.RoleKey(Account, name), r)
	}
	toEKS := `{"Effect":"Allow","Principal":{"Service":"eks.amazonaws.com"},` +
		`"Action":["sts:AssumeRole","sts:TagSession"]}`
	role("/", "eks-service", trust(toEKS))
	role("/", "node", trust(`{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}`))
	role("/", "fargate", trust(`{"Effect":"Allow","Principal":{"Service":"`+principal.FargatePods+`"},`+
		`"Action":"sts:AssumeRole","Condition":{"ArnLike":{"aws:SourceArn":"arn:aws:eks:`+Region+`:`+Account+
		`:fargateprofile/*"}}}`))
	role(
		"/",
		"denies",
		trust(toEKS+`,{"Effect":"Deny","Principal":{"Service":"eks.amazonaws.com"},"Action":"sts:AssumeRole"}`),
	)
	toPods := func(actions, more string) string {
		return `{"Effect":"Allow","Principal":{"Service":"pods.eks.amazonaws.com"},` +
			`"Action":[` + actions + `]` + more + `}`
	}
	role(
		"/",
		"irsa",
		trust(
			`{"Effect":"Allow","Principal":{"Federated":"arn:aws:iam::`+Account+`:oidc-provider/oidc"},`+
				`"Action":"sts:AssumeRoleWithWebIdentity"}`,
		),
	)
	role("/", "pods", trust(toPods(`"sts:AssumeRole","sts:TagSession"`, "")))
	role(
		"/",
		"other-pods",
		trust(
			toPods(
				`"sts:AssumeRole","sts:TagSession"`,
				`,"Condition":{"StringEquals":{"aws:RequestTag/kubernetes-namespace":["acme"]}}`,
			),
		),
	)
	toCapabilities := func(actions string) string {
		return trust(`{"Effect":"Allow","Principal":{"Service":"` + principal.Capabilities + `"},"Action":[` + actions + `]}`)
	}
	role("/", "capability", toCapabilities(`"sts:AssumeRole","sts:TagSession"`))
	role("/", "other-capability", toCapabilities(`"sts:AssumeRole","sts:TagSession"`))
	role("/", "untagged-capability", toCapabilities(`"sts:AssumeRole"`))
	role("/", "untagged-pods", trust(toPods(`"sts:AssumeRole"`, "")))
	role(
		"/teams/tooling/",
		"Admin",
		trust(`{"Effect":"Allow","Principal":{"AWS":"`+RootARN+`"},"Action":"sts:AssumeRole"}`),
	)
	Put(
		f.T, record.Users(f.Store), record.UserKey(Account, "alice"), record.User{Account: Account, Path: "/", Name: "alice"},
	)
}

// Request returns a CreateCluster that succeeds, of a cluster with access entries and aws-auth.
func Request(name string) *eks.CreateClusterInput {
	return &eks.CreateClusterInput{
		Name:               aws.String(name),
		RoleArn:            aws.String(RoleARN),
		ResourcesVpcConfig: &types.VpcConfigRequest{SubnetIds: []string{"subnet-a", "subnet-b"}},
		AccessConfig:       &types.CreateAccessConfigRequest{AuthenticationMode: types.AuthenticationModeApiAndConfigMap},
	}
}

// Create creates a cluster and has the control plane come up.
func (f *Fixture) Create(name string, edit ...func(*eks.CreateClusterInput)) *types.Cluster {
	f.T.Helper()
	in := Request(name)
	for _, e := range edit {
		e(in)
	}
	if _, err := f.Client.CreateCluster(f.T.Context(), in); err != nil {
		f.T.Fatalf("create cluster %s: %v", name, err)
	}
	f.Ready(name)
	return f.Describe(name)
}

// Describe describes a cluster.
func (f *Fixture) Describe(name string) *types.Cluster {
	f.T.Helper()
	out, err := f.Client.DescribeCluster(f.T.Context(), &eks.DescribeClusterInput{Name: &name})
	if err != nil {
		f.T.Fatalf("describe cluster %s: %v", name, err)
	}
	return out.Cluster
}

// Row returns the record of a cluster.
func (f *Fixture) Row(name string) record.Cluster {
	f.T.Helper()
	row, err := record.Clusters(f.Store).Get(f.T.Context(), record.ClusterKey(Account, Region, name))
	if err != nil {
		f.T.Fatal(err)
	}
	return row.Value
}

// Observe writes what the control-plane controller observed.
func (f *Fixture) Observe(name string, cp record.ControlPlane) {
	f.T.Helper()
	c := f.Row(name)
	cp.ClusterID = c.ID
	Put(f.T, record.ControlPlanes(f.Store), c.Key(), cp)
}

// Ready writes that the control plane of a cluster is ready.
func (f *Fixture) Ready(name string) {
	f.T.Helper()
	f.Observe(name, record.ControlPlane{
		Ready: true, Endpoint: "https://127.0.0.1:34567", CertificateAuthority: []byte("PEM"),
		Version:                f.Row(name).Version,
		ClusterSecurityGroupID: "sg-cluster", ObservedAt: Today,
	})
}

// Finish ends an update, as its controller would.
func (f *Fixture) Finish(name, id string, status types.UpdateStatus) {
	f.T.Helper()
	_, err := record.Updates(f.Store).
		Modify(f.T.Context(), record.UpdateKey(Account, Region, name, id), func(u *record.Update) error {
			u.Status = status
			if status == types.UpdateStatusFailed {
				u.Errors = []types.ErrorDetail{
					{ErrorCode: types.ErrorCodeUnknown, ErrorMessage: aws.String("the API server did not come up")},
				}
			}
			return nil
		})
	if err != nil {
		f.T.Fatal(err)
	}
}

// Config updates the configuration of a cluster, and ends the update successfully.
func (f *Fixture) Config(in *eks.UpdateClusterConfigInput) *types.Update {
	f.T.Helper()
	out, err := f.Client.UpdateClusterConfig(f.T.Context(), in)
	if err != nil {
		f.T.Fatalf("update cluster config: %v", err)
	}
	f.Finish(*in.Name, *out.Update.Id, types.UpdateStatusSuccessful)
	return out.Update
}

// Failure is an error as the client saw it.
type Failure struct {
	Code    string
	Status  int
	Message string
}

// FailureOf returns the error that the service answered with.
func FailureOf(t testing.TB, err error) Failure {
	t.Helper()
	var api smithy.APIError
	var response *smithyhttp.ResponseError
	if !errors.As(err, &api) || !errors.As(err, &response) {
		t.Fatalf("want an error of the service, got %v", err)
	}
	return Failure{api.ErrorCode(), response.HTTPStatusCode(), api.ErrorMessage()}
}

// ClusterARN is the ARN of a cluster without its name.
const ClusterARN = "arn:aws:eks:" + Region + ":" + Account + ":cluster/"

// PolicyPrefix is the ARN of an access policy without its name.
const PolicyPrefix = "arn:aws:eks::aws:cluster-access-policy/"

// FargateRole is a role that the machines of Fargate pods may have.
const FargateRole = "arn:aws:iam::" + Account + ":role/fargate"

// NodeRole is a role that EC2 may assume.
const NodeRole = "arn:aws:iam::" + Account + ":role/node"

// IgnoreUnexported leaves out what the SDK keeps in its structures.
func IgnoreUnexported() cmp.Option {
	return cmp.FilterPath(func(p cmp.Path) bool {
		field, ok := p.Last().(cmp.StructField)
		return ok && field.Name() == "noSmithyDocumentSerde"
	}, cmp.Ignore())
}

// Params returns the parameters of an update by type.
func Params(u *types.Update) map[types.UpdateParamType]string {
	out := map[types.UpdateParamType]string{}
	for _, p := range u.Params {
		out[p.Type] = aws.ToString(p.Value)
	}
	return out
}

// OwnConditions returns the condition keys that the service sets: without wire's global condition keys.
func OwnConditions(t wire.Target) map[string]string {
	out := map[string]string{}
	for k, v := range t.Conditions {
		if strings.HasPrefix(k, "eks:") || strings.HasPrefix(k, "aws:ResourceTag/") ||
			strings.HasPrefix(k, "aws:RequestTag/") ||
			k == "aws:TagKeys" {
			out[k] = strings.Join(v, " ")
		}
	}
	return out
}

// UpdateVersion returns a call of UpdateClusterVersion.
func UpdateVersion(cluster, to string) Call {
	return func(ctx context.Context, c *eks.Client) error {
		_, err := c.UpdateClusterVersion(ctx, &eks.UpdateClusterVersionInput{Name: &cluster, Version: &to})
		return err
	}
}

// DeleteCluster returns a call of DeleteCluster.
func DeleteCluster(cluster string) Call {
	return func(ctx context.Context, c *eks.Client) error {
		_, err := c.DeleteCluster(ctx, &eks.DeleteClusterInput{Name: &cluster})
		return err
	}
}
