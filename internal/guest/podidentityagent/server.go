//go:build linux

package podidentityagent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// credentials are the answer to a pod, in the form that SDKs read.
// https://docs.aws.amazon.com/sdkref/latest/guide/feature-container-credentials.html
type credentials struct {
	AccessKeyID     string `json:"AccessKeyId"`
	SecretAccessKey string
	Token           string
	AccountID       string `json:"AccountId"`
	Expiration      time.Time
}

// refusal is an error of the request itself, with the status that it is answered with.
type refusal struct {
	status  int
	message string
}

func (r *refusal) Error() string { return r.message }

// ServeHTTP answers a pod.
func (a *agent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/v1/credentials" {
		http.NotFound(w, r) // which probes expect
		return
	}
	c, err := a.answer(r)
	if err != nil {
		message, status := describe(err)
		a.o.metrics.responses.WithLabelValues(strconv.Itoa(status)).Inc()
		a.o.log.Error("a pod gets no credentials", "from", r.RemoteAddr, "status", status, "error", err)
		http.Error(w, message, status)
		return
	}
	a.o.metrics.responses.WithLabelValues("200").Inc()
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(c) // the pod has gone
}

// answer checks a request and returns its credentials.
func (a *agent) answer(r *http.Request) (*credentials, error) {
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	// A page in a browser, or a program that is made to fetch a URL, reaches the address by a name of its own.
	if host = strings.Trim(host, "[]"); host != IPv4 && host != IPv6 {
		return nil, &refusal{http.StatusForbidden, fmt.Sprintf("Access Denied. Called agent through invalid address, "+
			"please use either [%s %s] address not %s", IPv4, IPv6, host)}
	}
	token := r.Header.Get("Authorization")
	if err := checkToken(token, a.now()); err != nil {
		return nil, err
	}
	source, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return nil, fmt.Errorf("the address of the pod: %w", err)
	}
	return a.credentialsOf(r.Context(), source, token)
}

// checkToken refuses what cannot be a token that is good now. EKS Auth verifies it.
func checkToken(text string, now time.Time) error {
	if text == "" {
		return &refusal{http.StatusBadRequest, "Service account token cannot be empty"}
	}
	var claims jwt.Claims
	token, err := jwt.ParseSigned(text, []jose.SignatureAlgorithm{jose.RS256, jose.ES256, jose.ES384, jose.ES512})
	if err == nil {
		err = token.UnsafeClaimsWithoutVerification(&claims)
	}
	if err != nil {
		return &refusal{http.StatusBadRequest, fmt.Sprintf("Service account token cannot be parsed: %v", err)}
	}
	if err := claims.ValidateWithLeeway(jwt.Expected{Time: now}, 0); err != nil {
		return &refusal{http.StatusBadRequest, fmt.Sprintf("Service account token failed basic claim validations: %v", err)}
	}
	return nil
}

// describe returns what a pod is told of an error: that of EKS Auth with its status.
func describe(err error) (message string, status int) {
	var refused *refusal
	if errors.As(err, &refused) {
		return refused.message, refused.status
	}
	var parts []string
	status = http.StatusInternalServerError
	var response *awshttp.ResponseError
	if errors.As(err, &response) {
		if code := response.HTTPStatusCode(); code != 0 {
			status = code
		}
		parts = append(parts, "["+response.RequestID+"]")
	}
	var api smithy.APIError
	if errors.As(err, &api) {
		parts = append(parts, fmt.Sprintf("(%s): %s, fault: %s", api.ErrorCode(), api.ErrorMessage(), api.ErrorFault()))
	}
	if len(parts) == 0 {
		return err.Error(), status
	}
	return strings.Join(parts, ": "), status
}

// probeTime is how long a host has for its answer to a probe.
const probeTime = 10 * time.Second

// newProbes returns what serves /healthz and /readyz: whether the agent answers on the hosts.
func newProbes(hosts []string, port uint) *http.ServeMux {
	probe := func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), probeTime)
		defer cancel()
		for _, host := range hosts {
			switch err := probeHost(ctx, net.JoinHostPort(host, fmt.Sprint(port))); {
			case errors.Is(err, context.DeadlineExceeded):
				http.Error(w, err.Error(), http.StatusRequestTimeout)
				return
			case err != nil:
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", probe)
	mux.HandleFunc("/readyz", probe)
	return mux
}

func probeHost(ctx context.Context, address string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	response.Body.Close()
	if response.StatusCode != http.StatusNotFound {
		return fmt.Errorf("%s answers with status %d instead of %d", address, response.StatusCode, http.StatusNotFound)
	}
	return nil
}
