// Package podidentity is the admission webhook of EKS's control planes that gives pods the roles of their service
// accounts: it mounts a token for STS and sets the variables by which SDKs find it. What it does to a pod is
// upstream's: https://github.com/aws/amazon-eks-pod-identity-webhook
//
// Upstream's cache is not used. It keeps every service account of a cluster in memory, and it ends the program when it
// cannot list them; here clusters are many and their administrators are strangers. The service account of each pod is
// read instead.
package podidentity

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	identity "github.com/aws/amazon-eks-pod-identity-webhook/pkg"
	"github.com/aws/amazon-eks-pod-identity-webhook/pkg/cache"
	"github.com/aws/amazon-eks-pod-identity-webhook/pkg/containercredentials"
	"github.com/aws/amazon-eks-pod-identity-webhook/pkg/handler"
	admissionv1beta1 "k8s.io/api/admission/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/coracle-eks/coracle/internal/kube/client"
	"github.com/coracle-eks/coracle/internal/record"
)

const (
	// User is the Kubernetes user as which the webhook reads service accounts.
	User = "eks:pod-identity-mutating-webhook"

	userAgent = "amazon-eks-pod-identity-webhook (coracle)"
	domain    = "eks.amazonaws.com"
	audience  = "sts.amazonaws.com"

	// maxReview is the maximum size of a review in bytes: a pod of the size that etcd stores at most, as JSON.
	maxReview = 8 << 20
	// maxReviews is the number of reviews of a cluster that are answered at a time; others wait.
	maxReviews = 8
	// readTime bounds the read of a service account. The API server admits the pod as it is after ten seconds.
	readTime = 5 * time.Second
)

// Options configures a [Webhook].
type Options struct {
	// Config returns the configuration of a client of a cluster's API server as [User].
	Config func(ctx context.Context, c record.Cluster) (*rest.Config, error)
	Log    *slog.Logger
}

// Webhook answers the admission reviews of pods of all clusters.
type Webhook struct {
	o Options

	mu      sync.Mutex
	clients map[string]*client.Client // by cluster ID
	turns   map[string]chan struct{}  // by cluster ID
}

// New returns a Webhook.
func New(o Options) *Webhook {
	return &Webhook{o: o, clients: map[string]*client.Client{}, turns: map[string]chan struct{}{}}
}

// Configuration returns the object by which an API server sends the reviews of new pods to a URL, whose certificate the
// authority in PEM has issued. Its names and values are those of EKS, except for the URL.
func Configuration(url string, authority []byte) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
		"metadata": map[string]any{"name": "pod-identity-webhook"},
		"webhooks": []any{map[string]any{
			"name":                    "iam-for-pods.amazonaws.com",
			"admissionReviewVersions": []any{"v1beta1"},
			"clientConfig":            map[string]any{"url": url, "caBundle": base64.StdEncoding.EncodeToString(authority)},
			"failurePolicy":           "Ignore",
			"matchPolicy":             "Equivalent",
			"objectSelector": map[string]any{"matchExpressions": []any{map[string]any{
				"key": domain + "/skip-pod-identity-webhook", "operator": "DoesNotExist"}}},
			"reinvocationPolicy": "IfNeeded",
			"rules": []any{map[string]any{"apiGroups": []any{""}, "apiVersions": []any{"v1"},
				"operations": []any{"CREATE"}, "resources": []any{"pods"}, "scope": "*"}},
			"sideEffects":    "None",
			"timeoutSeconds": int64(10),
		}},
	}}
}

// Forget drops what is kept of a cluster that is gone.
func (w *Webhook) Forget(clusterID string) {
	w.forgetClient(clusterID)
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.turns, clusterID)
}

func (w *Webhook) forgetClient(clusterID string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c := w.clients[clusterID]; c != nil {
		c.Close()
		delete(w.clients, clusterID)
	}
}

// pods is what the webhook changes. The administrator of a cluster can have other objects sent here, of any form.
var pods = metav1.GroupVersionResource{Version: "v1", Resource: "pods"}

// Review answers an admission review of a pod of a cluster. A pod whose service account cannot be read is admitted as
// it is, as on EKS: the webhook's failure policy is Ignore.
func (w *Webhook) Review(answer http.ResponseWriter, r *http.Request, c record.Cluster) {
	w.mu.Lock()
	turn := w.turns[c.ID]
	if turn == nil {
		turn = make(chan struct{}, maxReviews)
		w.turns[c.ID] = turn
	}
	w.mu.Unlock()
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
	case <-r.Context().Done():
		return
	}
	var review admissionv1beta1.AdmissionReview
	err := json.NewDecoder(http.MaxBytesReader(answer, r.Body, maxReview)).Decode(&review)
	if err != nil || review.Request == nil {
		http.Error(answer, "the request body is not an AdmissionReview", http.StatusBadRequest)
		return
	}
	if review.Request.Resource != pods {
		http.Error(answer, "the review is not of a pod", http.StatusBadRequest)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), readTime)
	defer cancel()
	// One each: the source of random numbers in it is not for several goroutines.
	modifier := handler.NewModifier(nil, handler.WithAnnotationDomain(domain), handler.WithRegion(c.Region),
		handler.WithServiceAccountCache(&accounts{webhook: w, ctx: ctx, cluster: c}),
		handler.WithContainerCredentialsConfig(noAssociations{}))
	review.Response = modifier.MutatePod(&review)
	review.Response.UID = review.Request.UID
	review.Request = nil
	answer.Header().Set("Content-Type", "application/json")
	// A write fails only when the API server has gone.
	_ = json.NewEncoder(answer).Encode(review)
}

// serviceAccount reads a service account.
func (w *Webhook) serviceAccount(ctx context.Context, c record.Cluster, namespace, name string) (
	*corev1.ServiceAccount, error) {
	w.mu.Lock()
	known := w.clients[c.ID]
	w.mu.Unlock()
	if known == nil {
		config, err := w.o.Config(ctx, c)
		if err != nil {
			return nil, err
		}
		if known, err = client.New(config, c.Name, userAgent); err != nil {
			return nil, err
		}
		w.mu.Lock()
		w.clients[c.ID] = known
		w.mu.Unlock()
	}
	account, err := known.Core.ServiceAccounts(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		w.forgetClient(c.ID) // the API server may be elsewhere now
	}
	return account, err
}

// accounts is upstream's view of the service accounts of a cluster, for one review.
type accounts struct {
	webhook *Webhook
	ctx     context.Context
	cluster record.Cluster
}

// Get is part of cache.ServiceAccountCache.
func (a *accounts) Get(request cache.Request) cache.Response {
	account, err := a.webhook.serviceAccount(a.ctx, a.cluster, request.Namespace, request.Name)
	if err != nil {
		a.webhook.o.Log.Warn("a pod gets no role: its service account cannot be read", "cluster", a.cluster.Name,
			"namespace", request.Namespace, "serviceAccount", client.Cut(request.Name), "error", client.Cut(err.Error()))
		return cache.Response{TokenExpiration: identity.DefaultTokenExpiration}
	}
	return settings(account)
}

// settings returns what the annotations of a service account ask for.
//
// https://docs.aws.amazon.com/eks/latest/userguide/pod-configuration.html
func settings(account *corev1.ServiceAccount) cache.Response {
	annotation := func(name string) string { return account.Annotations[domain+"/"+name] }
	s := cache.Response{FoundInCache: true, RoleARN: annotation(identity.RoleARNAnnotation), Audience: audience,
		UseRegionalSTS: true, TokenExpiration: identity.DefaultTokenExpiration}
	if other := annotation(identity.AudienceAnnotation); other != "" {
		s.Audience = other
	}
	if regional, err := strconv.ParseBool(annotation(identity.UseRegionalSTSAnnotation)); err == nil {
		s.UseRegionalSTS = regional
	}
	if seconds, err := strconv.ParseInt(annotation(identity.TokenExpirationAnnotation), 10, 64); err == nil {
		s.TokenExpiration = identity.ValidateMinTokenExpiration(seconds)
	}
	return s
}

// GetCommonConfigurations is part of cache.ServiceAccountCache.
func (a *accounts) GetCommonConfigurations(name, namespace string) (useRegionalSTS bool, tokenExpiration int64) {
	s := a.Get(cache.Request{Namespace: namespace, Name: name})
	return s.UseRegionalSTS, s.TokenExpiration
}

// Start is part of cache.ServiceAccountCache: there is nothing to start.
func (*accounts) Start(chan struct{}) {}

// ToJSON is part of cache.ServiceAccountCache: nothing is kept.
func (*accounts) ToJSON() string { return "{}" }

// Clear is part of cache.ServiceAccountCache: nothing is kept.
func (*accounts) Clear() {}

// noAssociations gives no pod credentials of EKS Pod Identity, which needs an agent on the node.
type noAssociations struct{}

// Get is part of containercredentials.Config.
func (noAssociations) Get(string, string) *containercredentials.PatchConfig { return nil }
