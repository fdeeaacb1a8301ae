package bench

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"

	"github.com/coracle-eks/coracle/test/harness"
)

// load asks for requests over 32 connections for a while and reports how many a second were
// answered with 200, and the 99th percentile of the time that took.
func load(b testing.TB, requests []*http.Request, during time.Duration) (float64, time.Duration) {
	b.Helper()
	const connections = 32
	ctx, cancel := context.WithTimeout(b.Context(), during)
	defer cancel()
	var (
		wg    sync.WaitGroup
		times [connections][]time.Duration
		next  atomic.Int64
		start = time.Now()
	)
	for c := range connections {
		wg.Go(func() {
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1, MaxConnsPerHost: 1}}
			defer client.CloseIdleConnections()
			for ctx.Err() == nil {
				req := requests[int(next.Add(1))%len(requests)].Clone(context.Background())
				began := time.Now()
				resp, err := client.Do(req)
				if err != nil {
					b.Error(err)
					return
				}
				text, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil || resp.StatusCode != http.StatusOK {
					b.Errorf("%s %v\n%s", resp.Status, err, text)
					return
				}
				times[c] = append(times[c], time.Since(began))
			}
		})
	}
	wg.Wait()
	var all []time.Duration
	for _, t := range times {
		all = append(all, t...)
	}
	if len(all) == 0 {
		b.Fatal("nothing was answered")
	}
	return float64(len(all)) / time.Since(start).Seconds(), quantile(all, 0.99)
}

// BenchmarkDescribeCluster loads the API as an IAM user whose policy allows just that, with
// requests signed beforehand: the client's signing is not the server's time.
func BenchmarkDescribeCluster(b *testing.B) {
	d := harness.Start(b)
	d.CreateCluster("described", version, d.ClusterRole(), d.Subnets())
	d.AwaitStatus("described", ekstypes.ClusterStatusActive)
	ctx := b.Context()
	users := iam.NewFromConfig(d.Config())
	if _, err := users.CreateUser(ctx, &iam.CreateUserInput{UserName: aws.String("reader")}); err != nil {
		b.Fatal(err)
	}
	_, err := users.PutUserPolicy(ctx, &iam.PutUserPolicyInput{UserName: aws.String("reader"),
		PolicyName: aws.String("read"), PolicyDocument: aws.String(
			`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"eks:DescribeCluster","Resource":"arn:aws:eks:*:*:cluster/described"}]}`)})
	if err != nil {
		b.Fatal(err)
	}
	key, err := users.CreateAccessKey(ctx, &iam.CreateAccessKeyInput{UserName: aws.String("reader")})
	if err != nil {
		b.Fatal(err)
	}
	config := d.ConfigFor(*key.AccessKey.AccessKeyId, *key.AccessKey.SecretAccessKey, "")
	described, err := eks.NewFromConfig(config).DescribeCluster(ctx,
		&eks.DescribeClusterInput{Name: aws.String("described")})
	if err != nil {
		b.Fatal(err)
	}
	body, err := json.Marshal(described.Cluster)
	if err != nil {
		b.Fatal(err)
	}

	credentials, err := config.Credentials.Retrieve(ctx)
	if err != nil {
		b.Fatal(err)
	}
	empty := sha256.Sum256(nil)
	signer := v4.NewSigner()
	var signed []*http.Request
	for i := range 500 {
		req, err := http.NewRequest(http.MethodGet, d.Endpoint+"/clusters/described", nil)
		if err != nil {
			b.Fatal(err)
		}
		req.Header.Set("Amz-Sdk-Invocation-Id", fmt.Sprint(i)) // no two alike
		if err := signer.SignHTTP(ctx, credentials, req, hex.EncodeToString(empty[:]), "eks", harness.Region,
			time.Now()); err != nil {
			b.Fatal(err)
		}
		signed = append(signed, req)
	}
	const during = 10 * time.Second
	load(b, signed, 2*time.Second)
	rate, p99 := load(b, signed, during)

	var value any
	if err := json.Unmarshal(body, &value); err != nil {
		b.Fatal(err)
	}
	bare := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		var buf bytes.Buffer
		if err := json.NewEncoder(&buf).Encode(value); err != nil {
			b.Error(err)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(buf.Bytes())
	}))
	defer bare.Close()
	plain, err := http.NewRequest(http.MethodGet, bare.URL, nil)
	if err != nil {
		b.Fatal(err)
	}
	bareRate, bareP99 := load(b, []*http.Request{plain}, during)
	b.ReportMetric(rate, "requests/s")
	report(row{"DescribeCluster, signed, authorized, 32 connections", fmt.Sprintf("%.0f/s, p99 %.1f ms", rate,
		1e3*p99.Seconds()), "8,000/s, p99 15 ms",
		fmt.Sprintf("bare net/http JSON handler %.0f/s, p99 %.1f ms", bareRate, 1e3*bareP99.Seconds())})
}
