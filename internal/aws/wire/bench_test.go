package wire_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

func hash(body string) string {
	sum := sha256.Sum256([]byte(body))
	return hex.EncodeToString(sum[:])
}

var at = time.Unix(1700000000, 0).UTC()

// whole is a cluster with the members that DescribeCluster usually has.
var whole = &eks.DescribeClusterOutput{Cluster: &ekstypes.Cluster{
	Name: aws.String("ironman-2022"), Arn: aws.String("arn:aws:eks:us-west-2:111122223333:cluster/ironman-2022"),
	CreatedAt: &at,
	Version:   aws.String("1.35"), Endpoint: aws.String("https://127.0.0.1:6443"),
	RoleArn: aws.String("arn:aws:iam::111122223333:role/eks-service"),
	ResourcesVpcConfig: &ekstypes.VpcConfigResponse{
		SubnetIds:              []string{"subnet-0a1b2c3d4e5f60001", "subnet-0a1b2c3d4e5f60002"},
		ClusterSecurityGroupId: aws.String("sg-0123456789abcdef0"),
		VpcId:                  aws.String("vpc-0123456789abcdef0"), EndpointPublicAccess: true,
		PublicAccessCidrs: []string{"0.0.0.0/0"},
	},
	KubernetesNetworkConfig: &ekstypes.KubernetesNetworkConfigResponse{ServiceIpv4Cidr: aws.String("10.100.0.0/16"),
		IpFamily: ekstypes.IpFamilyIpv4},
	Logging: &ekstypes.Logging{ClusterLogging: []ekstypes.LogSetup{{Enabled: aws.Bool(false),
		Types: []ekstypes.LogType{"api", "audit", "authenticator", "controllerManager", "scheduler"}}}},
	Identity: &ekstypes.Identity{
		Oidc: &ekstypes.OIDC{Issuer: aws.String(
			"https://oidc.eks.us-west-2.amazonaws.com/id/EXAMPLED539D4633E53DE1B71EXAMPLE")}},
	Status:               ekstypes.ClusterStatusActive,
	CertificateAuthority: &ekstypes.Certificate{Data: aws.String(strings.Repeat("LS0tLS1CRUdJTi", 100))},
	PlatformVersion:      aws.String("eks.1"), Tags: map[string]string{"team": "platform", "env": "test"},
	Health:       &ekstypes.ClusterHealth{Issues: []ekstypes.ClusterIssue{}},
	AccessConfig: &ekstypes.AccessConfigResponse{AuthenticationMode: ekstypes.AuthenticationModeApiAndConfigMap},
}}

func benchMux() *wire.Mux {
	m := wire.NewMux(wire.Options{Credentials: keys{}, Authorizer: &allow{}})
	describe := func(context.Context, *eks.DescribeClusterInput) (*eks.DescribeClusterOutput, error) {
		return whole, nil
	}
	m.Register(wire.EKS, wire.Handle(describe, wire.OnAll))
	return m
}

type allow struct{}

func (*allow) Authorize(context.Context, wire.Caller, []wire.Target) error { return nil }

func signed(b *testing.B, url string) *http.Request {
	r, err := http.NewRequest("GET", url+"/clusters/ironman-2022", nil)
	if err != nil {
		b.Fatal(err)
	}
	creds := aws.Credentials{AccessKeyID: "AKIA", SecretAccessKey: "secret"}
	if err := v4.NewSigner().SignHTTP(b.Context(), creds, r, hash(""), "eks", "us-west-2", time.Now()); err != nil {
		b.Fatal(err)
	}
	return r
}

// BenchmarkServe measures one signed and authorized DescribeCluster in the server, without a network.
func BenchmarkServe(b *testing.B) {
	m := benchMux()
	r := signed(b, "http://coracle.test")
	b.ReportAllocs()
	for b.Loop() {
		w := httptest.NewRecorder()
		m.ServeHTTP(w, r)
		if w.Code != 200 {
			b.Fatal(w.Body)
		}
	}
}

// BenchmarkDescribeCluster is the number of the issue: signed, authorized, 32 connections over loopback, the client on
// the same cores. The client signs every request. BenchmarkBareHandler is the same with a bare net/http handler that
// writes as many bytes.
func BenchmarkDescribeCluster(b *testing.B) { overLoopback(b, benchMux(), true) }

func BenchmarkBareHandler(b *testing.B) {
	body := []byte(strings.Repeat("x", 2600))
	overLoopback(b, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Write(body)
	}), false)
}

func overLoopback(b *testing.B, h http.Handler, sign bool) {
	server := httptest.NewServer(h)
	defer server.Close()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 32, MaxConnsPerHost: 32}}
	b.SetParallelism(16) // times two processors: 32 connections
	var mu sync.Mutex
	var all []time.Duration
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		bare, err := http.NewRequest("GET", server.URL+"/clusters/ironman-2022", nil)
		if err != nil {
			b.Error(err)
			return
		}
		var took []time.Duration
		defer func() {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, took...)
		}()
		for pb.Next() {
			start := time.Now()
			r := bare
			if sign {
				r = signed(b, server.URL)
			}
			res, err := client.Do(r)
			if err != nil {
				b.Error(err)
				return
			}
			if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != 200 {
				b.Errorf("%d %v", res.StatusCode, err)
			}
			res.Body.Close()
			took = append(took, time.Since(start))
		}
	})
	slices.Sort(all)
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds())/1000, "p99-ms")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
}
