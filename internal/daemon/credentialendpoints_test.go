package daemon

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	authenticationv1 "k8s.io/api/authentication/v1"
)

// send sends a request and returns the status and the body of the answer.
func (w *walk) send(client *http.Client, r *http.Request) (int, string) {
	w.Helper()
	response, err := client.Do(r)
	w.must(err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	w.must(err)
	return response.StatusCode, string(body)
}

// request makes a request to the AWS endpoint; change adds the credential.
func (w *walk) request(base, method, path string, body string, change func(*http.Request)) *http.Request {
	w.Helper()
	r, err := http.NewRequestWithContext(w.Context(), method, base+path, strings.NewReader(body))
	w.must(err)
	change(r)
	return r
}

// answers reports whether any of the requests succeeds.
func (w *walk) answers(requests ...*http.Request) (accepted bool, said string) {
	w.Helper()
	for _, r := range requests {
		status, body := w.send(http.DefaultClient, r)
		said = fmt.Sprintf("%s %s: %d %.200q", r.Method, r.URL.Path, status, body)
		if status < 300 {
			return true, said
		}
	}
	return false, said
}

// signed shows a credential to the AWS APIs in the header of a request.
func (w *walk) signed(c shown) (bool, string) {
	var all []*http.Request
	list := func(change func(*http.Request)) {
		for _, base := range []string{w.api.URL, w.inside.URL} {
			all = append(all, w.request(base, http.MethodGet, "/clusters", "", change))
		}
	}
	sign := func(with aws.Credentials) {
		list(func(r *http.Request) {
			w.must(v4.NewSigner().SignHTTP(w.Context(), with, r, emptyHash, "eks", walkRegion, time.Now()))
		})
	}
	if c.key.AccessKeyID != "" {
		sign(c.key)
	}
	for _, text := range c.forms() {
		if strings.ContainsAny(text, "\n\r") {
			continue
		}
		sign(aws.Credentials{AccessKeyID: w.root.AccessKeyID, SecretAccessKey: text})
		sign(aws.Credentials{AccessKeyID: w.root.AccessKeyID, SessionToken: text})
		sign(aws.Credentials{AccessKeyID: w.session.AccessKeyID, SessionToken: text})
		sign(aws.Credentials{AccessKeyID: w.session.AccessKeyID, SecretAccessKey: text,
			SessionToken: w.session.SessionToken})
		sign(aws.Credentials{AccessKeyID: w.session.AccessKeyID, SecretAccessKey: text})
		if !strings.Contains(text, "/") {
			sign(aws.Credentials{AccessKeyID: text})
			sign(aws.Credentials{AccessKeyID: text, SessionToken: w.session.SessionToken})
		}
		list(func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+text) })
		list(func(r *http.Request) { r.Header.Set("Authorization", text) })
		list(func(r *http.Request) { r.Header.Set("X-Amz-Security-Token", text) })
		list(func(r *http.Request) { r.SetBasicAuth("AWS", text) })
	}
	return w.answers(all...)
}

// inQuery shows a credential to the AWS APIs in the query of a request.
func (w *walk) inQuery(c shown) (bool, string) {
	var all []*http.Request
	if u, err := url.Parse(c.text); err == nil && u.Scheme == "http" {
		all = append(all, w.request(w.api.URL, http.MethodGet, u.Path+"?"+u.RawQuery, "", func(*http.Request) {}))
	}
	own, err := url.Parse(w.presign())
	w.must(err)
	for _, text := range c.forms() {
		for _, name := range []string{"X-Amz-Security-Token", "X-Amz-Signature", "X-Amz-Credential"} {
			query := own.Query()
			query.Set(name, text)
			all = append(all, w.request(w.api.URL, http.MethodGet, own.Path+"?"+query.Encode(), "",
				func(*http.Request) {}))
		}
	}
	return w.answers(all...)
}

// toRegistry shows a credential to the registry wherever it might look for a password.
func (w *walk) toRegistry(method, path string) func(shown) (bool, string) {
	return func(c shown) (bool, string) {
		var all []*http.Request
		ask := func(path string, change func(*http.Request)) {
			for _, base := range []string{w.api.URL, w.inside.URL} {
				all = append(all, w.request(base, method, path, "", change))
			}
		}
		for _, text := range c.forms() {
			ask(path, func(r *http.Request) { r.SetBasicAuth("AWS", text) })
			ask(path, func(r *http.Request) { r.SetBasicAuth(text, "") })
			ask(path, func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+text) })
			ask(path, func(r *http.Request) { r.Header.Set("Authorization", "Basic "+text) })
			ask(path+"?"+url.Values{"layer-token": {text}, "authorization-token": {text}}.Encode(),
				func(*http.Request) {})
		}
		return w.answers(all...)
	}
}

// toLayer shows a credential in the URL of a layer.
func (w *walk) toLayer(path string) func(shown) (bool, string) {
	return func(c shown) (bool, string) {
		var all []*http.Request
		for _, text := range c.forms() {
			for _, method := range []string{http.MethodGet, http.MethodHead} {
				all = append(all, w.request(w.api.URL, method, path+"?"+url.Values{"layer-token": {text}}.Encode(), "",
					func(*http.Request) {}))
			}
		}
		return w.answers(all...)
	}
}

// toUpload shows a credential as the state of an upload, beside a good password.
func (w *walk) toUpload(c shown) (bool, string) {
	path, own := w.upload()
	if c.kind == uploadState {
		c.text = own // each state is of one upload
	}
	var all []*http.Request
	password := w.password()
	for _, text := range c.forms() {
		all = append(all, w.request(w.api.URL, http.MethodPatch, path+"?"+url.Values{"_state": {text}}.Encode(), "x",
			func(r *http.Request) { r.SetBasicAuth("AWS", password) }))
	}
	return w.answers(all...)
}

// toWebhook shows a credential to the token webhook, as a bearer token of a client of the cluster's API server.
func (w *walk) toWebhook(c shown) (accepted bool, said string) {
	for _, text := range c.forms() {
		body, err := json.Marshal(authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: text}})
		w.must(err)
		r := w.request(w.webhook.URL, http.MethodPost, "/clusters/"+walkCluster+"/authenticate", string(body),
			func(*http.Request) {})
		status, answer := w.send(w.webhooks, r)
		var review authenticationv1.TokenReview
		if status != http.StatusOK || json.NewDecoder(bytes.NewReader([]byte(answer))).Decode(&review) != nil {
			w.Errorf("the token webhook, asked about %s: %d %s", c.kind, status, answer)
		}
		if said = answer; review.Status.Authenticated {
			return true, said
		}
	}
	return false, said
}

// toSTS shows a credential as a web identity.
func (w *walk) toSTS(c shown) (bool, string) {
	client := sts.NewFromConfig(w.config(aws.Credentials{}))
	for _, text := range c.forms() {
		out, err := client.AssumeRoleWithWebIdentity(w.Context(), &sts.AssumeRoleWithWebIdentityInput{
			RoleArn: aws.String(walkRole), RoleSessionName: aws.String("session"), WebIdentityToken: &text,
		})
		if err == nil {
			return true, *out.AssumedRoleUser.Arn
		}
	}
	return false, ""
}

// toMetadata shows a credential to the metadata service, as the instance 127.0.0.1.
func (w *walk) toMetadata(c shown) (bool, string) {
	var all []*http.Request
	for _, text := range c.forms() {
		all = append(all, w.request(w.metadata, http.MethodGet, "/", "",
			func(r *http.Request) { r.Header.Set("X-Aws-Ec2-Metadata-Token", text) }))
	}
	return w.answers(all...)
}

// toCredentials shows a credential where cloud controller managers get theirs.
func (w *walk) toCredentials(base string) func(shown) (bool, string) {
	return func(c shown) (bool, string) {
		var all []*http.Request
		for _, text := range c.forms() {
			for _, scheme := range []string{"", "Bearer ", "Basic "} {
				all = append(all, w.request(base, http.MethodGet, "/credentials/"+walkCluster, "",
					func(r *http.Request) { r.Header.Set("Authorization", scheme+text) }))
			}
		}
		return w.answers(all...)
	}
}

// toPage shows a credential as the token of a page, in a request that is signed.
func (w *walk) toPage(c shown) (bool, string) {
	for _, text := range c.forms() {
		if text == "" {
			continue // the first page
		}
		out, err := eks.NewFromConfig(w.config(w.user)).ListClusters(w.Context(),
			&eks.ListClustersInput{MaxResults: aws.Int32(1), NextToken: &text})
		if err == nil {
			return true, strings.Join(out.Clusters, " ")
		}
	}
	return false, ""
}

// toCommands shows a credential to the commands of the admin socket, which are on no other listener.
func (w *walk) toCommands(c shown) (bool, string) {
	var all []*http.Request
	for _, text := range c.forms() {
		for method, paths := range map[string][]string{http.MethodGet: {"/status", "/ping", "/backup", "/images"},
			http.MethodPost: {"/stop", "/accounts", "/interruptions", "/images", "/fields"}} {
			for _, path := range paths {
				for _, base := range []string{w.api.URL, w.inside.URL} {
					all = append(all, w.request(base, method, path, "{}",
						func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+text) }))
				}
			}
		}
	}
	return w.answers(all...)
}
