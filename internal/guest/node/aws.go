package node

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/coracle-eks/coracle/internal/guest/imds"
)

// AWS makes the two calls that a node makes before it joins, with the instance's role. The SDK's clients for them would
// be a multiple of init itself, in the one binary that stays in memory on every machine.
type AWS struct {
	Region string
	IMDS   *imds.Client
	Client *http.Client // nil: http.DefaultClient
	// Warn is called with what is tried again; it may be nil.
	Warn func(format string, args ...any)
}

// APIError is an error that AWS answered with.
type APIError struct {
	Operation, Code, Message string
	Status                   int
}

func (e APIError) Error() string {
	return fmt.Sprintf("An error occurred (%s) when calling the %s operation: %s", e.Code, e.Operation, e.Message)
}

func (a AWS) endpoint(service string) string {
	for _, name := range []string{"AWS_ENDPOINT_URL_" + strings.ToUpper(service), "AWS_ENDPOINT_URL"} {
		if url := os.Getenv(name); url != "" {
			return strings.TrimSuffix(url, "/")
		}
	}
	suffix := ".amazonaws.com"
	if strings.HasPrefix(a.Region, "cn-") {
		suffix += ".cn"
	}
	return "https://" + service + "." + a.Region + suffix
}

func (a AWS) callAPI(ctx context.Context, service, operation, method, path, body string) ([]byte, error) {
	credentials, err := a.IMDS.RoleCredentials(ctx)
	if err != nil {
		return nil, fmt.Errorf("Unable to locate credentials: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, method, a.endpoint(service)+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
	}
	request.Header.Set("User-Agent", "coracle-node")
	hash := sha256.Sum256([]byte(body))
	if err := v4.NewSigner().SignHTTP(ctx, aws.Credentials{AccessKeyID: credentials.AccessKeyID,
		SecretAccessKey: credentials.SecretAccessKey, SessionToken: credentials.Token},
		request, hex.EncodeToString(hash[:]), service, a.Region, time.Now()); err != nil {
		return nil, err
	}
	client := a.Client
	if client == nil {
		client = http.DefaultClient
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("Could not connect to the endpoint URL: %w", err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, 4<<20))
	if err != nil {
		return nil, err
	}
	if response.StatusCode == http.StatusOK {
		return data, nil
	}
	e := APIError{Operation: operation, Status: response.StatusCode, Code: response.Header.Get("X-Amzn-Errortype")}
	e.Code, _, _ = strings.Cut(e.Code, ":")
	var asJSON struct {
		Message string `json:"message"`
	}
	var asXML struct {
		Code    string `xml:"Errors>Error>Code"`
		Message string `xml:"Errors>Error>Message"`
	}
	if json.Unmarshal(data, &asJSON) == nil {
		e.Message = asJSON.Message
	} else if xml.Unmarshal(data, &asXML) == nil {
		e.Code, e.Message = asXML.Code, asXML.Message
	}
	if e.Code == "" {
		e.Code = fmt.Sprint(response.StatusCode)
	}
	return nil, e
}

// Cluster is the part of DescribeCluster's response that a node needs.
type Cluster struct {
	ID                   string
	Status               string
	Endpoint             string
	CertificateAuthority struct{ Data string }
	KubernetesNetwork    struct{ ServiceIpv4Cidr, ServiceIpv6Cidr, IPFamily string } `json:"kubernetesNetworkConfig"`
	Outpost              struct{ OutpostArns []string }                              `json:"outpostConfig"`
}

// DescribeCluster calls eks:DescribeCluster.
func (a AWS) DescribeCluster(ctx context.Context, name string) (Cluster, error) {
	data, err := a.callAPI(ctx, "eks", "DescribeCluster", http.MethodGet, "/clusters/"+url.PathEscape(name), "")
	if err != nil {
		return Cluster{}, err
	}
	var answer struct{ Cluster Cluster }
	if err := json.Unmarshal(data, &answer); err != nil {
		return Cluster{}, fmt.Errorf("read the answer of DescribeCluster: %w", err)
	}
	return answer.Cluster, nil
}

// WaitActive asks until the cluster is ACTIVE, as "aws eks wait cluster-active" does, and returns it.
func (a AWS) WaitActive(ctx context.Context, name string) (Cluster, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Minute)
	defer cancel()
	for {
		c, err := a.DescribeCluster(ctx, name)
		switch {
		case err != nil:
			return c, err
		case c.Status == "ACTIVE" || c.Status == "UPDATING":
			return c, nil
		case c.Status != "CREATING" && c.Status != "PENDING":
			return c,
				fmt.Errorf(
					"Waiter ClusterActive failed: Waiter encountered a terminal failure state: the cluster is %s",
					c.Status)
		}
		select {
		case <-ctx.Done():
			return c, fmt.Errorf("Waiter ClusterActive failed: Max attempts exceeded: the cluster is %s", c.Status)
		case <-time.After(2 * time.Second):
		}
	}
}

// PrivateDNSName returns the private DNS name of the instance according to EC2 (ec2:DescribeInstances), which is the
// node's name. It waits for the name: after a launch it may appear later than the instance.
func (a AWS) PrivateDNSName(ctx context.Context, instanceID string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	form := url.Values{"Action": {"DescribeInstances"}, "Version": {"2016-11-15"},
		"InstanceId.1": {instanceID}}.Encode()
	warned := false
	for {
		data, err := a.callAPI(ctx, "ec2", "DescribeInstances", http.MethodPost, "/", form)
		var refused APIError
		if errors.As(err, &refused) && refused.Status < 500 && refused.Code != "InvalidInstanceID.NotFound" &&
			refused.Code != "RequestLimitExceeded" {
			return "", err
		}
		if err == nil {
			var answer struct {
				Names []string `xml:"reservationSet>item>instancesSet>item>privateDnsName"`
			}
			if err = xml.Unmarshal(data, &answer); err != nil {
				return "", fmt.Errorf("read the answer of DescribeInstances: %w", err)
			}
			if len(answer.Names) == 1 && answer.Names[0] != "" {
				return answer.Names[0], nil
			}
			err = errors.New("EC2 says no PrivateDnsName for this instance")
		}
		if a.Warn != nil && !warned {
			warned = true
			a.Warn("WARN: PrivateDnsName is not available, waiting up to 2 minutes: %v", err)
		}
		select {
		case <-ctx.Done():
			return "", err
		case <-time.After(500 * time.Millisecond):
		}
	}
}
