package podidentity

import (
	"context"
	"errors"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/amazon-eks-pod-identity-webhook/pkg/cache"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/coracle-eks/coracle/internal/record"
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
		"audience":     {map[string]string{"audience": "vault"}, changed(func(r *cache.Response) { r.Audience = "vault" })},
		"global STS":   {map[string]string{"sts-regional-endpoints": "false"}, changed(func(r *cache.Response) { r.UseRegionalSTS = false })},
		"expiration":   {map[string]string{"token-expiration": "7200"}, changed(func(r *cache.Response) { r.TokenExpiration = 7200 })},
		"too short":    {map[string]string{"token-expiration": "60"}, changed(func(r *cache.Response) { r.TokenExpiration = 600 })},
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
		Config: func(context.Context, record.Cluster) (*rest.Config, error) { return nil, errors.New("not yet") }})
	for body, want := range map[string]string{
		`{"request":{"uid":"7","resource":{"version":"v1","resource":"pods"},"namespace":"default","object":{"metadata":{"name":"p"},"spec":{"serviceAccountName":"a"}}}}`: `{"response":{"uid":"7","allowed":true}}`,
		`{"request":{"uid":"7","resource":{"group":"g","version":"v1","resource":"pods"},"object":{"spec":{"containers":[{}]}}}}`:                                          "not of a pod",
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
