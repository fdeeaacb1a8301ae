package ssm_test

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ssm"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	coracle "github.com/coracle-eks/coracle/internal/aws/ssm"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/store/storetest"
	"github.com/coracle-eks/coracle/test/awsclient"
)

const (
	account = "111122223333"
	region  = "eu-west-1"
	rootARN = "arn:aws:iam::" + account + ":root"
	ownARN  = "arn:aws:ssm:" + region + ":" + account + ":parameter"
)

var today = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// fixture is Parameter Store behind the real wire.
type fixture struct {
	*ssm.Client
	*awstest.Judge
	url string
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	w := &fixture{Judge: awstest.NewJudge()}
	mux := wire.NewMux(wire.Options{Credentials: w, Authorizer: w, Region: region})
	coracle.New(coracle.Options{Store: storetest.New(t), Now: func() time.Time { return today }}).Register(mux)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	w.url = server.URL
	w.Client = ssm.New(ssm.Options{
		Region: region, BaseEndpoint: aws.String(server.URL), RetryMaxAttempts: 1, HTTPClient: awsclient.HTTP(),
		Credentials: credentials.NewStaticCredentialsProvider("AKIAROOT", "secret", ""),
	})
	return w
}
