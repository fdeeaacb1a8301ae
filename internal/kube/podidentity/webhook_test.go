package podidentity

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/amazon-eks-pod-identity-webhook/pkg/cache"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/go-cmp/cmp"
	admissionv1beta1 "k8s.io/api/admission/v1beta1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/client-go/rest"

	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/turn"
)

func TestSettings(t *testing.T) {
	t.Parallel()
	defaults := cache.Response{FoundInCache: true, Audience: "sts.amazonaws.com", UseRegionalSTS: true,
		TokenExpiration: 86400}
	changed := func(change func(*cache.Response)) cache.Response {
		r := defaults
		change(&r)
		return r
	}
	for name, test := range map[string]struct {
		annotations map[string]string
		want        cache.Response
	}{
		"none": {nil, defaults},
		"role": {map[string]string{"role-arn": "arn:aws:iam::111122223333:role/a"},
			changed(func(r *cache.Response) { r.RoleARN = "arn:aws:iam::111122223333:role/a" })},
		"audience":            {map[string]string{"audience": "vault"}, changed(func(r *cache.Response) { r.Audience = "vault" })},
		"global STS":          {map[string]string{"sts-regional-endpoints": "false"}, changed(func(r *cache.Response) { r.UseRegionalSTS = false })},
		"expiration":          {map[string]string{"token-expiration": "7200"}, changed(func(r *cache.Response) { r.TokenExpiration = 7200 })},
		"too short":           {map[string]string{"token-expiration": "60"}, changed(func(r *cache.Response) { r.TokenExpiration = 600 })},
		"a role that is none": {map[string]string{"role-arn": "reader", "audience": strings.Repeat("a", 513)}, defaults},
		"a role that is too long": {map[string]string{
			"role-arn": "arn:aws:iam::111122223333:role/" + strings.Repeat("a", 577)}, defaults},
		"letters that JSON escapes": {map[string]string{
			"role-arn": "arn:aws:iam::111122223333:role/" + strings.Repeat("<", 64)}, defaults},
		"a role of a partition, with a path": {map[string]string{"role-arn": "arn:aws-us-gov:iam::111122223333:role/a/b+c"},
			changed(func(r *cache.Response) { r.RoleARN = "arn:aws-us-gov:iam::111122223333:role/a/b+c" })},
		"not a number": {map[string]string{"token-expiration": "1h", "sts-regional-endpoints": "perhaps"}, defaults},
	} {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{}}}
		for key, value := range test.annotations {
			account.Annotations["eks.amazonaws.com/"+key] = value
		}
		if diff := cmp.Diff(test.want, settings(account), cmp.FilterPath(func(p cmp.Path) bool {
			return p.Last().String() == ".Notifier"
		}, cmp.Ignore())); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestReviewWithoutAnAPIServer checks that pods are admitted as they are, and that what is no review is refused.
func TestReviewWithoutAnAPIServer(t *testing.T) {
	t.Parallel()
	w := New(Options{Log: slog.New(slog.DiscardHandler),
		Config:     func(context.Context, record.Cluster) (*rest.Config, error) { return nil, errors.New("not yet") },
		Associated: func(context.Context, record.Cluster, string, string) (bool, error) { return false, nil }})
	for body, want := range map[string]string{
		`{"request":{"uid":"7","resource":{"version":"v1","resource":"pods"},"namespace":"default","object":{"metadata":{"name":"p"},"spec":{"serviceAccountName":"a"}}}}`: `{"response":{"uid":"7","allowed":true}}`,
		`{"request":{"uid":"7","resource":{"group":"g","version":"v1","resource":"pods"},"object":{"spec":{"containers":[{}]}}}}`:                                          "not of a pod",
		`{"request":{"uid":"7","resource":{"version":"v1","resource":"pods"},"object":{"spec":{"containers":[{}` +
			strings.Repeat(",{}", 300) + `],"initContainers":[{}` + strings.Repeat(",{}", 200) + `]}}}}`: "has 502 containers",
		// Nothing ends the decoder that reads it.
		`{"request":{"uid":"7","resource":{"version":"v1","resource":"pods"},"object":{"spec":{"containers":[{"resources":` +
			`{"requests":{"cpu":"1e-1000000000"}}}]}}}}`: "a quantity has more than",
		`{"spec":{"token":"t"}}`: "not an AdmissionReview",
		`{"request":`:            "not an AdmissionReview",
		`{"request":{"uid":"7","object":` + strings.Repeat(" ", maxReview): "not an AdmissionReview",
	} {
		answer := httptest.NewRecorder()
		w.Review(answer, httptest.NewRequest("POST", "/mutate", strings.NewReader(body)), record.Cluster{ID: "C"})
		if got := answer.Body.String(); !strings.Contains(got, want) {
			t.Errorf("%.60s: %d %s", body, answer.Code, got)
		}
	}
}

// TestPodsWithAssociations checks that an association has precedence over an annotation, and that the pods of clusters
// with IPv6 are told the address of the agent that they reach.
func TestPodsWithAssociations(t *testing.T) {
	t.Parallel()
	w := New(Options{Log: slog.New(slog.DiscardHandler),
		Config: func(context.Context, record.Cluster) (*rest.Config, error) { return nil, errors.New("not yet") },
		Associated: func(_ context.Context, _ record.Cluster, namespace, account string) (bool, error) {
			return namespace == "n" && account == "a", nil
		}})
	for family, url := range map[ekstypes.IpFamily]string{
		ekstypes.IpFamilyIpv4: "http://169.254.170.23/v1/credentials",
		ekstypes.IpFamilyIpv6: "http://[fd00:ec2::23]/v1/credentials",
	} {
		answer := httptest.NewRecorder()
		w.Review(answer, httptest.NewRequest("POST", "/mutate", strings.NewReader(`{"request":{"uid":"7","namespace":"n",
			"resource":{"version":"v1","resource":"pods"},"object":{"metadata":{"name":"p"},"spec":{
			"serviceAccountName":"a","containers":[{"name":"c"}]}}}}`)), record.Cluster{ID: "C", Region: "r", IPFamily: family})
		var review admissionv1beta1.AdmissionReview
		if err := json.Unmarshal(answer.Body.Bytes(), &review); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{`"AWS_CONTAINER_CREDENTIALS_FULL_URI","value":"` + url + `"`,
			`"mountPath":"/var/run/secrets/pods.eks.amazonaws.com/serviceaccount"`, `"audience":"pods.eks.amazonaws.com"`,
			`"eks-pod-identity-token"`, `"AWS_REGION","value":"r"`, `"eks.amazonaws.com/pod-identity`} {
			if patch := string(review.Response.Patch); !strings.Contains(patch, want) {
				t.Errorf("%s: the patch lacks %s: %s", family, want, patch)
			}
		}
	}
}

// TestClustersHaveAShareEach checks that the reviews of one cluster leave room for those of another of the account.
func TestClustersHaveAShareEach(t *testing.T) {
	t.Parallel()
	w := New(Options{Log: slog.New(slog.DiscardHandler)})
	one, other := record.Cluster{ID: "1", Account: "a"}, record.Cluster{ID: "2", Account: "a"}
	ctx, cancel := context.WithCancel(t.Context())
	waited := make(chan bool)
	var releases []func()
	try := func(c record.Cluster, size int64) (release func(), err error) {
		return turn.AcquireBoth(ctx, size, w.clusterShare, c.ID, w.accountShare, c.Account)
	}
	acquire := func(c record.Cluster) {
		release, err := try(c, maxReview)
		if err != nil {
			t.Fatalf("a review of cluster %s waited in vain: %v", c.ID, err)
		}
		releases = append(releases, release)
	}
	for range maxCluster / maxReview {
		acquire(one)
	}
	go func() {
		_, err := try(one, minReview)
		waited <- err == nil
	}()
	for range maxCluster / maxReview {
		acquire(other)
	}
	cancel()
	if <-waited {
		t.Error("a cluster has more than its share")
	}
	for _, release := range releases {
		release()
	}
	if n := w.accountShare.Holders() + w.clusterShare.Holders(); n > 0 {
		t.Errorf("%d have not got back their share", n)
	}
}

// TestReviewedPodsAreValid checks that what an API server says of a pod is one.
func TestReviewedPodsAreValid(t *testing.T) {
	t.Parallel()
	const uid = "0a5f2f6e-5a3b-4ae2-9a0e-2f8a4c8f1d11"
	for name, test := range map[string]struct {
		user, pod, uid string
		want           bool
	}{
		"a pod":             {"system:serviceaccount:n:a", "p-1.x", uid, true},
		"another letter":    {"system:serviceaccount:n:a", "p/1", uid, false},
		"a long name":       {"system:serviceaccount:n:a", strings.Repeat("p", 254), uid, false},
		"a UID that is not": {"system:serviceaccount:n:a", "p", "7", false},
		"no pod":            {"system:serviceaccount:n:a", "", "", false},
		"no namespace":      {"system:serviceaccount:N_:a", "p", uid, false},
		"a user":            {"admin", "p", uid, false},
	} {
		server := httptest.NewTLSServer(http.HandlerFunc(func(answer http.ResponseWriter, _ *http.Request) {
			answer.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(answer).Encode(authenticationv1.TokenReview{
				TypeMeta: metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "TokenReview"},
				Status: authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{
					Username: test.user, Extra: map[string]authenticationv1.ExtraValue{
						serviceaccount.PodNameKey: {test.pod}, serviceaccount.PodUIDKey: {test.uid}}}}})
		}))
		w := New(Options{Log: slog.New(slog.DiscardHandler),
			Config: func(context.Context, record.Cluster) (*rest.Config, error) {
				return &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, nil
			}})
		pod, err := w.ReviewToken(t.Context(), record.Cluster{ID: "C"}, "t")
		server.Close()
		var invalid *InvalidTokenError
		if test.want && (err != nil || pod.Name != test.pod) || !test.want && !errors.As(err, &invalid) {
			t.Errorf("%s: got %+v, %v", name, pod, err)
		}
	}
}
