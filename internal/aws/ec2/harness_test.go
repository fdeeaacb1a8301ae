package ec2_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	clientv3 "go.etcd.io/etcd/client/v3"

	coracle "github.com/coracle-eks/coracle/internal/aws/ec2"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/store/storetest"
	"github.com/coracle-eks/coracle/test/awsclient"
)

const (
	account = "111122223333"
	region  = "eu-west-1"
)

// world is the EC2 front behind the real wire and the SDK's client of it.
type world struct {
	t      testing.TB
	etcd   *clientv3.Client
	prefix string
	url    string
	http   *http.Client // of this world alone: a server that ends closes connections of the default one
	*ec2.Client

	store   *store.Store // of the first daemon
	service *coracle.Service

	mu     sync.Mutex
	caller wire.Caller
	deny   func(wire.Target) bool
	asked  []wire.Target
}

func newWorld(t testing.TB) *world {
	t.Helper()
	root := "arn:aws:iam::" + account + ":root"
	w := &world{
		t: t, etcd: storetest.Client(t), prefix: storetest.Prefix(t), http: awsclient.HTTP(),
		caller: wire.Caller{Account: account, ARN: root, PrincipalARN: root, UserID: account},
	}
	t.Cleanup(w.http.CloseIdleConnections)
	w.url = w.daemon()
	w.Client = w.client(w.url, region)
	return w
}

// daemon is the URL of a server with a mirror of its own of the store that all of this world share.
func (w *world) daemon() string {
	s, err := store.Open(w.ctx(), w.etcd, store.Options{Prefix: w.prefix, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(s.Close)
	mux := wire.NewMux(wire.Options{Credentials: keys{w}, Authorizer: judge{w}, Region: region})
	service := coracle.New(coracle.Options{Store: s})
	service.Register(mux)
	if w.store == nil {
		w.store, w.service = s, service
	}
	server := httptest.NewServer(mux)
	w.t.Cleanup(server.Close)
	return server.URL
}

// dump is all that the store holds.
func (w *world) dump() string {
	w.t.Helper()
	all, err := w.etcd.Get(w.ctx(), w.prefix, clientv3.WithPrefix())
	if err != nil {
		w.t.Fatal(err)
	}
	var text strings.Builder
	for _, kv := range all.Kvs {
		fmt.Fprintf(&text, "%s %d %s\n", kv.Key, kv.ModRevision, kv.Value)
	}
	return text.String()
}

func (w *world) client(url, region string) *ec2.Client {
	return ec2.New(ec2.Options{
		Region: region, BaseEndpoint: aws.String(url), RetryMaxAttempts: 1, HTTPClient: w.http,
		Credentials: credentials.NewStaticCredentialsProvider("AKIAROOT", "secret", ""),
	})
}

type (
	keys  struct{ *world }
	judge struct{ *world }
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
			return &wire.Denied{Action: t.Action, Resource: t.Resource}
		}
	}
	return nil
}

// as makes every further call that of another caller.
func (w *world) as(c wire.Caller) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.caller = c
}

// targets are what the authorizer was asked about an action.
func (w *world) targets(action string) []wire.Target {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.asked), func(t wire.Target) bool { return t.Action != action })
}

// must is the answer of a call that must succeed.
func must[T any](t testing.TB) func(T, error) T {
	return func(out T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
}

// code is the AWS error code of err, its message and its HTTP status.
func code(err error) (code, message string, status int) {
	var api smithy.APIError
	var response *smithyhttp.ResponseError
	if errors.As(err, &api) {
		code, message = api.ErrorCode(), api.ErrorMessage()
	}
	if errors.As(err, &response) {
		status = response.HTTPStatusCode()
	}
	return
}

// wantCode fails the test unless err is an AWS error of that code.
func wantCode(t testing.TB, err error, want string) {
	t.Helper()
	if got, message, _ := code(err); got != want {
		t.Fatalf("got error %q (%s, %v), want %s", got, message, err, want)
	}
}

func (w *world) ctx() context.Context { return w.t.Context() }

// vpc makes a VPC and is its id; so do the others below with what they are named for.
func (w *world) vpc(cidr string) string {
	w.t.Helper()
	return *must[*ec2.CreateVpcOutput](w.t)(w.CreateVpc(w.ctx(), &ec2.CreateVpcInput{CidrBlock: &cidr})).Vpc.VpcId
}

func (w *world) subnet(vpc, cidr, zone string) string {
	w.t.Helper()
	return *must[*ec2.CreateSubnetOutput](w.t)(w.CreateSubnet(w.ctx(), &ec2.CreateSubnetInput{VpcId: &vpc,
		CidrBlock: &cidr, AvailabilityZone: aws.String(region + zone)})).Subnet.SubnetId
}

func (w *world) group(vpc, name string) string {
	w.t.Helper()
	return *must[*ec2.CreateSecurityGroupOutput](w.t)(w.CreateSecurityGroup(w.ctx(),
		&ec2.CreateSecurityGroupInput{VpcId: &vpc, GroupName: &name, Description: aws.String("for " + name)})).GroupId
}

func (w *world) networkInterface(subnet string) types.NetworkInterface {
	w.t.Helper()
	return *must[*ec2.CreateNetworkInterfaceOutput](w.t)(w.CreateNetworkInterface(w.ctx(),
		&ec2.CreateNetworkInterfaceInput{SubnetId: &subnet})).NetworkInterface
}

// internet attaches a new internet gateway to a VPC.
func (w *world) internet(vpc string) string {
	w.t.Helper()
	id := must[*ec2.CreateInternetGatewayOutput](w.t)(w.CreateInternetGateway(w.ctx(),
		&ec2.CreateInternetGatewayInput{})).InternetGateway.InternetGatewayId
	must[*ec2.AttachInternetGatewayOutput](w.t)(w.AttachInternetGateway(w.ctx(),
		&ec2.AttachInternetGatewayInput{InternetGatewayId: id, VpcId: &vpc}))
	return *id
}

func (w *world) address() *ec2.AllocateAddressOutput {
	w.t.Helper()
	return must[*ec2.AllocateAddressOutput](w.t)(w.AllocateAddress(w.ctx(), &ec2.AllocateAddressInput{}))
}

func filter(name string, values ...string) types.Filter {
	return types.Filter{Name: &name, Values: values}
}

// like fails the test unless got is of the form of an id: prefix and 17 hexadecimal digits.
func like(t testing.TB, got *string, prefix string) {
	t.Helper()
	digits, ok := strings.CutPrefix(aws.ToString(got), prefix)
	if !ok || len(digits) != 17 || strings.Trim(digits, "0123456789abcdef") != "" {
		t.Errorf("got id %q, want %s and 17 hexadecimal digits", aws.ToString(got), prefix)
	}
}
