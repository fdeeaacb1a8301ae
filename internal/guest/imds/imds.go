// Package imds asks the instance metadata service, as programs on an instance do: version 2, with a token.
//
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-retrieval.html
//
// The client is not feature/ec2/imds of the AWS SDK (v1.20.7): without its
// fallback to version 1, that hides the status of a token that was refused, by which an instance whose metadata is
// turned off is known; and it takes no token from IMDS_TOKEN and reads no paths but its own, as the program "imds"
// must.
package imds

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

// Endpoint is the service's address; AWS_EC2_METADATA_SERVICE_ENDPOINT takes its place, as for SDKs.
const Endpoint = "http://169.254.169.254"

// Client asks for metadata; its zero value is ready. It may be used concurrently.
type Client struct {
	Endpoint string // empty: what the environment says, or Endpoint

	mu    sync.Mutex
	token string
}

// ErrNotFound is that of a path that does not exist for this instance, such as user-data without any.
var ErrNotFound = errors.New("not found in the instance metadata")

// ErrDisabled is that of an instance whose metadata options turn the service off.
var ErrDisabled = errors.New("the instance metadata service is disabled for this instance (HttpEndpoint)")

// transport has no proxy: the address is on the link.
var transport = &http.Transport{Proxy: nil, ResponseHeaderTimeout: 5 * time.Second, DisableKeepAlives: true}

func (c *Client) endpoint() string {
	if c.Endpoint != "" {
		return c.Endpoint
	}
	if e := os.Getenv("AWS_EC2_METADATA_SERVICE_ENDPOINT"); e != "" {
		return strings.TrimSuffix(e, "/")
	}
	return Endpoint
}

// Token returns a session token, valid for a quarter of an hour.
func (c *Client) Token(ctx context.Context) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.token != "" {
		return c.token, nil
	}
	body, err := c.sendRequest(ctx, http.MethodPut, "/latest/api/token",
		http.Header{"X-Aws-Ec2-Metadata-Token-Ttl-Seconds": {"900"}})
	if err != nil {
		return "", err
	}
	c.token = string(body)
	return c.token, nil
}

// Get returns the content of a path such as "latest/meta-data/instance-id".
func (c *Client) Get(ctx context.Context, path string) ([]byte, error) {
	for attempt := 0; ; attempt++ {
		token, err := c.Token(ctx)
		if err != nil {
			return nil, err
		}
		body, err := c.sendRequest(ctx, http.MethodGet, "/"+strings.TrimPrefix(path, "/"),
			http.Header{"X-Aws-Ec2-Metadata-Token": {token}})
		var status statusError
		if errors.As(err, &status) && status == http.StatusUnauthorized && attempt == 0 {
			c.mu.Lock()
			c.token = "" // it has expired
			c.mu.Unlock()
			continue
		}
		return body, err
	}
}

// Meta returns the content of a path below latest/meta-data, without surrounding blanks.
func (c *Client) Meta(ctx context.Context, path string) (string, error) {
	body, err := c.Get(ctx, "latest/meta-data/"+path)
	return strings.TrimSpace(string(body)), err
}

type statusError int

func (s statusError) Error() string {
	return fmt.Sprintf("the instance metadata service answered %d %s", int(s), http.StatusText(int(s)))
}

func (c *Client) sendRequest(ctx context.Context, method, path string, header http.Header) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.endpoint()+path, nil)
	if err != nil {
		return nil, err
	}
	request.Header = header
	response, err := transport.RoundTrip(request)
	if err != nil {
		return nil, fmt.Errorf("ask the instance metadata service for %s: %w", path, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return nil, fmt.Errorf("ask the instance metadata service for %s: %w", path, err)
	}
	switch {
	case response.StatusCode == http.StatusNotFound:
		return nil, fmt.Errorf("%s: %w", path, ErrNotFound)
	case response.StatusCode == http.StatusForbidden:
		return nil, ErrDisabled
	case response.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s: %w", path, statusError(response.StatusCode))
	}
	return body, nil
}

// Wait asks until the service answers at all, or ctx ends. A service that is disabled has answered.
func (c *Client) Wait(ctx context.Context) error {
	for {
		attempt, cancel := context.WithTimeout(ctx, 2*time.Second)
		_, err := c.Token(attempt)
		cancel()
		if err == nil || errors.Is(err, ErrDisabled) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Document is the instance identity document.
type Document struct {
	AccountID        string `json:"accountId"`
	Architecture     string `json:"architecture"`
	AvailabilityZone string `json:"availabilityZone"`
	ImageID          string `json:"imageId"`
	InstanceID       string `json:"instanceId"`
	InstanceType     string `json:"instanceType"`
	PrivateIP        string `json:"privateIp"`
	Region           string `json:"region"`
}

// Identity returns the instance identity document.
func (c *Client) Identity(ctx context.Context) (Document, error) {
	var d Document
	body, err := c.Get(ctx, "latest/dynamic/instance-identity/document")
	if err != nil {
		return d, err
	}
	if err := json.Unmarshal(body, &d); err != nil {
		return d, fmt.Errorf("read the instance identity document: %w", err)
	}
	return d, nil
}

// Credentials are those of the instance's role.
type Credentials struct {
	Code            string
	Message         string
	AccessKeyID     string `json:"AccessKeyId"`
	SecretAccessKey string
	Token           string
	Expiration      time.Time
}

// RoleCredentials returns the credentials of the role in the instance's profile.
func (c *Client) RoleCredentials(ctx context.Context) (Credentials, error) {
	var credentials Credentials
	role, err := c.Meta(ctx, "iam/security-credentials/")
	if errors.Is(err, ErrNotFound) || (err == nil && role == "") {
		return credentials,
			errors.New(
				"this instance has no role: give it an instance profile whose role may be assumed by ec2.amazonaws.com")
	}
	if err != nil {
		return credentials, err
	}
	role, _, _ = strings.Cut(role, "\n")
	body, err := c.Get(ctx, "latest/meta-data/iam/security-credentials/"+role)
	if err != nil {
		return credentials, fmt.Errorf("credentials of the instance's role %s: %w", role, err)
	}
	if err := json.Unmarshal(body, &credentials); err != nil {
		return credentials, fmt.Errorf("credentials of the instance's role %s: %w", role, err)
	}
	if credentials.Code != "Success" {
		return credentials, fmt.Errorf("credentials of the instance's role %s: %s: %s", role, credentials.Code,
			credentials.Message)
	}
	return credentials, nil
}
