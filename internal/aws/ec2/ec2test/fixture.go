// Package ec2test is the fixture of the tests of the EC2 API: the API behind the real wire, and the client of the SDK.
package ec2test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	coracle "github.com/coracle-eks/coracle/internal/aws/ec2"
	coraclekms "github.com/coracle-eks/coracle/internal/aws/kms"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/store/storetest"
	"github.com/coracle-eks/coracle/test/awsclient"
)

// Where the fixture calls from, unless a test says otherwise.
const (
	Account = awstest.Account
	Region  = awstest.Region
)

// Fixture is the EC2 API behind the real wire, and the client of the SDK for it.
type Fixture struct {
	T      testing.TB
	etcd   *clientv3.Client
	prefix string
	URL    string
	http   *http.Client // of this fixture alone: a server that ends closes connections of the default one

	diskless bool
	*ec2.Client

	Store   *store.Store // of the first daemon
	Service *coracle.Service

	*awstest.Judge
}

// New returns a fixture with a server of its own.
func New(t testing.TB) *Fixture {
	t.Helper()
	return newFixture(t, false)
}

// NewDiskless returns a fixture of a host where no disks stand for root volumes.
func NewDiskless(t testing.TB) *Fixture {
	t.Helper()
	return newFixture(t, true)
}

func newFixture(t testing.TB, diskless bool) *Fixture {
	t.Helper()
	w := &Fixture{
		T: t, etcd: storetest.Client(t), prefix: storetest.Prefix(t), http: awsclient.HTTP(), Judge: awstest.NewJudge(),
		diskless: diskless,
	}
	t.Cleanup(w.http.CloseIdleConnections)
	w.URL = w.Daemon()
	w.Client = w.NewClient(w.URL, Region)
	return w
}

// Daemon returns the URL of a server with a mirror of its own of the store that all servers of the fixture share.
func (w *Fixture) Daemon() string {
	s, err := store.Open(w.Context(), w.etcd, store.Options{Prefix: w.prefix, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		w.T.Fatal(err)
	}
	w.T.Cleanup(s.Close)
	mux := wire.NewMux(wire.Options{Credentials: w.Judge, Authorizer: w.Judge, Region: Region})
	keys := coraclekms.New(coraclekms.Options{Store: s})
	service := coracle.New(coracle.Options{Store: s, Keys: keys, DisklessRoots: w.diskless})
	service.Register(mux)
	keys.Register(mux)
	if w.Store == nil {
		w.Store, w.Service = s, service
	}
	server := httptest.NewServer(mux)
	w.T.Cleanup(server.Close)
	return server.URL
}

// Dump returns all that the store holds.
func (w *Fixture) Dump() string {
	w.T.Helper()
	all, err := w.etcd.Get(w.Context(), w.prefix, clientv3.WithPrefix())
	if err != nil {
		w.T.Fatal(err)
	}
	var text strings.Builder
	for _, kv := range all.Kvs {
		fmt.Fprintf(&text, "%s %d %s\n", kv.Key, kv.ModRevision, kv.Value)
	}
	return text.String()
}

// NewClient returns a client of a server in a region.
func (w *Fixture) NewClient(url, region string) *ec2.Client {
	return ec2.New(ec2.Options{
		Region: region, BaseEndpoint: aws.String(url), RetryMaxAttempts: 1, HTTPClient: w.http,
		Credentials: credentials.NewStaticCredentialsProvider("AKIAROOT", "secret", ""),
	})
}

// KMS returns a client of KMS, with the credentials of the fixture's client.
func (w *Fixture) KMS() *kms.Client {
	return kms.New(kms.Options{
		Region: Region, BaseEndpoint: aws.String(w.URL), RetryMaxAttempts: 1, HTTPClient: w.http,
		Credentials: credentials.NewStaticCredentialsProvider("AKIAROOT", "secret", ""),
	})
}

// ClientWith returns a client with another access key, which Judge.Sessions knows.
func (w *Fixture) ClientWith(key string) *ec2.Client {
	return ec2.New(ec2.Options{
		Region: Region, BaseEndpoint: aws.String(w.URL), RetryMaxAttempts: 1, HTTPClient: w.http,
		Credentials: credentials.NewStaticCredentialsProvider(key, "secret", ""),
	})
}

// Context returns the context of the test.
func (w *Fixture) Context() context.Context { return w.T.Context() }

// VPC creates a VPC and returns its ID.
func (w *Fixture) VPC(cidr string) string {
	w.T.Helper()
	return *awstest.Must[*ec2.CreateVpcOutput](w.T)(w.CreateVpc(w.Context(),
		&ec2.CreateVpcInput{CidrBlock: &cidr})).Vpc.VpcId
}

// Subnet creates a subnet and returns its ID.
func (w *Fixture) Subnet(vpc, cidr, zone string) string {
	w.T.Helper()
	return *awstest.Must[*ec2.CreateSubnetOutput](w.T)(w.CreateSubnet(w.Context(), &ec2.CreateSubnetInput{VpcId: &vpc,
		CidrBlock: &cidr, AvailabilityZone: aws.String(Region + zone)})).Subnet.SubnetId
}

// SecurityGroup creates a security group and returns its ID.
func (w *Fixture) SecurityGroup(vpc, name string) string {
	w.T.Helper()
	return *awstest.Must[*ec2.CreateSecurityGroupOutput](w.T)(w.CreateSecurityGroup(w.Context(),
		&ec2.CreateSecurityGroupInput{VpcId: &vpc, GroupName: &name, Description: aws.String("for " + name)})).GroupId
}

// NetworkInterface creates a network interface.
func (w *Fixture) NetworkInterface(subnet string) types.NetworkInterface {
	w.T.Helper()
	return *awstest.Must[*ec2.CreateNetworkInterfaceOutput](w.T)(w.CreateNetworkInterface(w.Context(),
		&ec2.CreateNetworkInterfaceInput{SubnetId: &subnet})).NetworkInterface
}

// InternetGateway attaches a new internet gateway to a VPC.
func (w *Fixture) InternetGateway(vpc string) string {
	w.T.Helper()
	id := awstest.Must[*ec2.CreateInternetGatewayOutput](w.T)(w.CreateInternetGateway(w.Context(),
		&ec2.CreateInternetGatewayInput{})).InternetGateway.InternetGatewayId
	awstest.Must[*ec2.AttachInternetGatewayOutput](w.T)(w.AttachInternetGateway(w.Context(),
		&ec2.AttachInternetGatewayInput{InternetGatewayId: id, VpcId: &vpc}))
	return *id
}

// Address allocates an elastic address.
func (w *Fixture) Address() *ec2.AllocateAddressOutput {
	w.T.Helper()
	return awstest.Must[*ec2.AllocateAddressOutput](w.T)(w.AllocateAddress(w.Context(), &ec2.AllocateAddressInput{}))
}

// Filter returns a filter of a Describe request.
func Filter(name string, values ...string) types.Filter {
	return types.Filter{Name: &name, Values: values}
}

// WantID fails the test unless got is of the form of an id: prefix and 17 hexadecimal digits.
func WantID(t testing.TB, got *string, prefix string) {
	t.Helper()
	digits, ok := strings.CutPrefix(aws.ToString(got), prefix)
	if !ok || len(digits) != 17 || strings.Trim(digits, "0123456789abcdef") != "" {
		t.Errorf("got id %q, want %s and 17 hexadecimal digits", aws.ToString(got), prefix)
	}
}

// CountFreeAddresses returns the number of free addresses that a subnet shows.
func CountFreeAddresses(w *Fixture, subnet string) int32 {
	w.T.Helper()
	return *awstest.Must[*ec2.DescribeSubnetsOutput](w.T)(w.DescribeSubnets(w.Context(),
		&ec2.DescribeSubnetsInput{SubnetIds: []string{subnet}})).Subnets[0].AvailableIpAddressCount
}

// DescribeInterface returns a network interface as it is now.
func DescribeInterface(w *Fixture, id *string) types.NetworkInterface {
	w.T.Helper()
	return awstest.Must[*ec2.DescribeNetworkInterfacesOutput](w.T)(w.DescribeNetworkInterfaces(w.Context(),
		&ec2.DescribeNetworkInterfacesInput{NetworkInterfaceIds: []string{*id}})).NetworkInterfaces[0]
}
