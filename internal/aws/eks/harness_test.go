package eks_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	ec2front "github.com/coracle-eks/coracle/internal/aws/ec2"
	coracle "github.com/coracle-eks/coracle/internal/aws/eks"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/store/storetest"
	"github.com/coracle-eks/coracle/test/awsclient"
)

const (
	account = "111122223333"
	region  = "eu-west-1"
	roleARN = "arn:aws:iam::" + account + ":role/eks-service"
	rootARN = "arn:aws:iam::" + account + ":root"

	irsaRole = "arn:aws:iam::" + account + ":role/irsa" // for service accounts, by OIDC
	podRole  = "arn:aws:iam::" + account + ":role/pods" // by EKS Pod Identity
)

// today is in standard support of 1.34 to 1.36 and in extended support of 1.33.
var today = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// world is the EKS front behind the real wire, with the rows of IAM and EC2 that it reads.
type world struct {
	t      testing.TB
	store  *store.Store
	client *eks.Client
	ec2    *ec2.Client
	shelf  shelf
	url    string

	mu     sync.Mutex
	caller wire.Caller
	deny   func(wire.Target) bool
	asked  []wire.Target
	linked []string
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, store: storetest.New(t), caller: wire.Caller{Account: account, ARN: rootARN, PrincipalARN: rootARN, UserID: account, AccessKeyID: "AKIAROOT"}}
	w.seed()
	var err error
	if w.shelf, err = openShelf(); err != nil {
		t.Fatal(err)
	}
	mux := wire.NewMux(wire.Options{Credentials: keys{w}, Authorizer: judge{w}, Region: region})
	machines := ec2front.New(ec2front.Options{Store: w.store})
	machines.Register(mux)
	coracle.New(coracle.Options{Store: w.store, EC2: machines, ServiceLinkedRoles: links{w}, Catalogue: w.shelf, Now: func() time.Time { return today }}).Register(mux)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	w.url = server.URL
	w.client = eks.New(eks.Options{
		Region:           region,
		BaseEndpoint:     aws.String(server.URL),
		Credentials:      credentials.NewStaticCredentialsProvider("AKIAROOT", "secret", ""),
		RetryMaxAttempts: 1,
		HTTPClient:       awsclient.HTTP(),
	})
	w.ec2 = ec2.New(ec2.Options{
		Region: region, BaseEndpoint: aws.String(server.URL), Credentials: credentials.NewStaticCredentialsProvider("AKIAROOT", "secret", ""), RetryMaxAttempts: 1, HTTPClient: awsclient.HTTP(),
	})
	return w
}

type (
	keys  struct{ *world }
	judge struct{ *world }
	links struct{ *world }
)

func (k keys) Lookup(context.Context, string, string) (string, wire.Caller, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return "secret", k.caller, nil
}

func (j judge) Authorize(_ context.Context, _ wire.Caller, targets []wire.Target) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.asked = append(j.asked, targets...)
	for _, t := range targets {
		if j.deny != nil && j.deny(t) {
			return &wire.Denied{Action: t.Action, Resource: t.Resource, Reason: "because no identity-based policy allows the " + t.Action + " action"}
		}
	}
	return nil
}

func (l links) Ensure(_ context.Context, account, service string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.linked = append(l.linked, account+"/"+service)
	return nil
}

// target is the last target that was judged for an action.
func (w *world) target(action string) wire.Target {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range slices.Backward(w.asked) {
		if t.Action == action {
			return t
		}
	}
	w.t.Fatalf("nobody was asked about %s", action)
	return wire.Target{}
}

func put[T any](w *world, table store.Table[T], key string, v T) {
	w.t.Helper()
	if _, err := table.Put(w.t.Context(), key, v); err != nil {
		w.t.Fatal(err)
	}
}

// seed writes a VPC 10.0.0.0/16 with subnets a, b (zone a and b), a2 (zone a) and a group, another VPC in 192.168.0.0/16 with
// IPv6, and roles and users.
func (w *world) seed() {
	resource := func(id string) record.EC2Resource {
		return record.EC2Resource{Account: account, Region: region, ID: id}
	}
	vpc := func(id, cidr, v6 string) {
		v := record.VPC{EC2Resource: resource(id), CIDRs: []record.CIDRAssociation{{CIDR: cidr}}}
		if v6 != "" {
			v.IPv6CIDRs = []record.CIDRAssociation{{CIDR: v6}}
		}
		put(w, record.VPCs(w.store), v.Key(), v)
	}
	subnet := func(id, vpc, zone, cidr, v6 string) {
		s := record.Subnet{EC2Resource: resource(id), VPCID: vpc, AvailabilityZone: region + zone, CIDR: cidr}
		if v6 != "" {
			s.IPv6 = &record.CIDRAssociation{CIDR: v6}
		}
		put(w, record.Subnets(w.store), s.Key(), s)
	}
	group := func(id, vpc string) {
		g := record.SecurityGroup{EC2Resource: resource(id), VPCID: vpc}
		put(w, record.SecurityGroups(w.store), g.Key(), g)
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
	put(w, record.SecurityGroups(w.store), standard.Key(), standard)
	vpc("vpc-2", "192.168.0.0/16", "2a05:d018::/56")
	subnet("subnet-2a", "vpc-2", "a", "192.168.1.0/24", "2a05:d018::/64")
	subnet("subnet-2b", "vpc-2", "b", "192.168.2.0/24", "2a05:d018:0:1::/64")
	subnet("subnet-2c", "vpc-2", "c", "192.168.3.0/24", "")
	group("sg-other", "vpc-2")

	trust := func(statement string) string { return `{"Version":"2012-10-17","Statement":[` + statement + `]}` }
	role := func(path, name, document string) {
		r := record.Role{Account: account, Path: path, Name: name, Trust: document}
		put(w, record.Roles(w.store), record.RoleKey(account, name), r)
	}
	toEKS := `{"Effect":"Allow","Principal":{"Service":"eks.amazonaws.com"},"Action":["sts:AssumeRole","sts:TagSession"]}`
	role("/", "eks-service", trust(toEKS))
	role("/", "node", trust(`{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}`))
	role("/", "denies", trust(toEKS+`,{"Effect":"Deny","Principal":{"Service":"eks.amazonaws.com"},"Action":"sts:AssumeRole"}`))
	toPods := func(actions, more string) string {
		return `{"Effect":"Allow","Principal":{"Service":"pods.eks.amazonaws.com"},"Action":[` + actions + `]` + more + `}`
	}
	role("/", "irsa", trust(`{"Effect":"Allow","Principal":{"Federated":"arn:aws:iam::`+account+`:oidc-provider/oidc"},"Action":"sts:AssumeRoleWithWebIdentity"}`))
	role("/", "pods", trust(toPods(`"sts:AssumeRole","sts:TagSession"`, "")))
	role("/", "other-pods", trust(toPods(`"sts:AssumeRole","sts:TagSession"`, `,"Condition":{"StringEquals":{"aws:RequestTag/kubernetes-namespace":["acme"]}}`)))
	role("/", "untagged-pods", trust(toPods(`"sts:AssumeRole"`, "")))
	role("/teams/tooling/", "Admin", trust(`{"Effect":"Allow","Principal":{"AWS":"`+rootARN+`"},"Action":"sts:AssumeRole"}`))
	put(w, record.Users(w.store), record.UserKey(account, "alice"), record.User{Account: account, Path: "/", Name: "alice"})
}

// request is a CreateCluster that succeeds.
func request(name string) *eks.CreateClusterInput {
	return &eks.CreateClusterInput{
		Name:               aws.String(name),
		RoleArn:            aws.String(roleARN),
		ResourcesVpcConfig: &types.VpcConfigRequest{SubnetIds: []string{"subnet-a", "subnet-b"}},
	}
}

// create creates a cluster and has the control plane come up.
func (w *world) create(name string, edit ...func(*eks.CreateClusterInput)) *types.Cluster {
	w.t.Helper()
	in := request(name)
	for _, e := range edit {
		e(in)
	}
	if _, err := w.client.CreateCluster(w.t.Context(), in); err != nil {
		w.t.Fatalf("create cluster %s: %v", name, err)
	}
	w.ready(name)
	return w.describe(name)
}

func (w *world) describe(name string) *types.Cluster {
	w.t.Helper()
	out, err := w.client.DescribeCluster(w.t.Context(), &eks.DescribeClusterInput{Name: &name})
	if err != nil {
		w.t.Fatalf("describe cluster %s: %v", name, err)
	}
	return out.Cluster
}

func (w *world) row(name string) record.Cluster {
	w.t.Helper()
	row, err := record.Clusters(w.store).Get(w.t.Context(), record.ClusterKey(account, region, name))
	if err != nil {
		w.t.Fatal(err)
	}
	return row.Value
}

// observe is the controller writing what it saw.
func (w *world) observe(name string, cp record.ControlPlane) {
	w.t.Helper()
	c := w.row(name)
	cp.ClusterID = c.ID
	put(w, record.ControlPlanes(w.store), c.Key(), cp)
}

func (w *world) ready(name string) {
	w.t.Helper()
	w.observe(name, record.ControlPlane{
		Ready: true, Endpoint: "https://127.0.0.1:34567", CertificateAuthority: []byte("PEM"), Version: w.row(name).Version,
		ClusterSecurityGroupID: "sg-cluster", ObservedAt: today,
	})
}

// finish is the controller ending an update.
func (w *world) finish(name, id string, status types.UpdateStatus) {
	w.t.Helper()
	_, err := record.Updates(w.store).Modify(w.t.Context(), record.UpdateKey(account, region, name, id), func(u *record.Update) error {
		u.Status = status
		if status == types.UpdateStatusFailed {
			u.Errors = []types.ErrorDetail{{ErrorCode: types.ErrorCodeUnknown, ErrorMessage: aws.String("the API server did not come up")}}
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// config makes an update and ends it well.
func (w *world) config(in *eks.UpdateClusterConfigInput) *types.Update {
	w.t.Helper()
	out, err := w.client.UpdateClusterConfig(w.t.Context(), in)
	if err != nil {
		w.t.Fatalf("update cluster config: %v", err)
	}
	w.finish(*in.Name, *out.Update.Id, types.UpdateStatusSuccessful)
	return out.Update
}

// failure is an error as the client saw it.
type failure struct {
	code    string
	status  int
	message string
}

func failureOf(t testing.TB, err error) failure {
	t.Helper()
	var api smithy.APIError
	var response *smithyhttp.ResponseError
	if !errors.As(err, &api) || !errors.As(err, &response) {
		t.Fatalf("want an error of the service, got %v", err)
	}
	return failure{api.ErrorCode(), response.HTTPStatusCode(), api.ErrorMessage()}
}
