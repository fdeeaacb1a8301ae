// Package podidentity is the admission webhook of EKS's control planes that gives pods the roles of their service
// accounts: it mounts a token and sets the variables by which SDKs find it. The token is for the agent of EKS Pod
// Identity on the node if an association gives the service account a role, else for STS if an annotation does. What the
// webhook does to a pod is upstream's: https://github.com/aws/amazon-eks-pod-identity-webhook
//
// Upstream's cache is not used. It keeps every service account of a cluster in memory, and it ends the program when it
// cannot list them; here clusters are many and their administrators are strangers. The service account of a pod is
// read instead, and its settings are cached, within bounds, until a watch reports that it has changed.
package podidentity

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"net/http"
	"regexp"
	"strconv"
	"sync"
	"time"

	identity "github.com/aws/amazon-eks-pod-identity-webhook/pkg"
	"github.com/aws/amazon-eks-pod-identity-webhook/pkg/cache"
	"github.com/aws/amazon-eks-pod-identity-webhook/pkg/containercredentials"
	"github.com/aws/amazon-eks-pod-identity-webhook/pkg/handler"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	admissionv1beta1 "k8s.io/api/admission/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/coracle-eks/coracle/internal/kube/client"
	"github.com/coracle-eks/coracle/internal/kube/clientcache"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/turn"
)

const (
	// User is the Kubernetes user as which the webhook reads service accounts.
	User = "eks:pod-identity-mutating-webhook"

	userAgent = "amazon-eks-pod-identity-webhook (coracle)"
	domain    = "eks.amazonaws.com"
	audience  = "sts.amazonaws.com"

	// What pods with an association get: https://docs.aws.amazon.com/eks/latest/userguide/pod-id-how-it-works.html
	credentialsURL      = "http://169.254.170.23/v1/credentials"
	credentialsURLv6    = "http://[fd00:ec2::23]/v1/credentials"
	credentialsAudience = "pods.eks.amazonaws.com"
	credentialsVolume   = "eks-pod-identity-token"
	credentialsMount    = "/var/run/secrets/pods.eks.amazonaws.com/serviceaccount"

	// maxReview is the maximum size of a review in bytes; pods have a few thousand.
	maxReview = 1 << 20
	// maxAccount is the size in bytes that the reviews of all clusters of an account have together which are answered at
	// a time; others wait. Each counts for minReview at least, because its answer may be much longer than itself.
	maxAccount, minReview = 8 << 20, 512 << 10
	// maxCluster is the part of maxAccount that the reviews of one cluster have: the others of the account have room
	// beside them.
	maxCluster = 2 << 20
	// maxContainers is the number of containers of a pod with a role. What a service account's annotations say is copied
	// into each.
	maxContainers = 250
	// maxAudience is the length of an annotation that is followed.
	maxAudience = 512
	// readTime bounds the read of a service account. The API server admits the pod as it is after ten seconds.
	readTime = 5 * time.Second
)

// Options configures a [Webhook].
type Options struct {
	// Config returns the configuration of a client of a cluster's API server as [User].
	Config func(ctx context.Context, c record.Cluster) (*rest.Config, error)
	// Associated reports whether a service account of a cluster has a pod identity association.
	Associated func(ctx context.Context, c record.Cluster, namespace, serviceAccount string) (bool, error)
	Log        *slog.Logger
}

// Webhook answers the admission reviews of pods of all clusters.
type Webhook struct {
	o       Options
	clients *clientcache.Cache

	clusterShare, accountShare *turn.Places // bytes

	mu    sync.Mutex
	known map[string]*knownSettings // by cluster ID
}

// New returns a Webhook.
func New(o Options) *Webhook {
	return &Webhook{o: o, clients: clientcache.New(o.Config, userAgent),
		clusterShare: turn.Each(maxCluster), accountShare: turn.Each(maxAccount), known: map[string]*knownSettings{}}
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
	w.clients.Forget(clusterID)
	w.mu.Lock()
	defer w.mu.Unlock()
	if known := w.known[clusterID]; known != nil {
		known.stop()
		delete(w.known, clusterID)
	}
}

// knownSettings returns what is known of the service accounts of a cluster.
func (w *Webhook) knownSettings(clusterID string) *knownSettings {
	w.mu.Lock()
	defer w.mu.Unlock()
	known := w.known[clusterID]
	if known == nil {
		known = newKnownSettings()
		w.known[clusterID] = known
	}
	return known
}

// pods is what the webhook changes. The administrator of a cluster can have other objects sent here, of any form.
var pods = metav1.GroupVersionResource{Version: "v1", Resource: "pods"}

// Review answers an admission review of a pod of a cluster. A pod whose service account cannot be read is admitted as
// it is, as on EKS: the webhook's failure policy is Ignore.
func (w *Webhook) Review(answer http.ResponseWriter, r *http.Request, c record.Cluster) {
	size := r.ContentLength
	if size < 0 || size > maxReview {
		size = maxReview
	}
	release, err := turn.AcquireBoth(r.Context(), max(size, minReview), w.clusterShare, c.ID, w.accountShare, c.Account)
	if err != nil {
		return
	}
	defer release()
	var review admissionv1beta1.AdmissionReview
	err = json.NewDecoder(http.MaxBytesReader(answer, r.Body, maxReview)).Decode(&review)
	if err != nil || review.Request == nil {
		http.Error(answer, "the request body is not an AdmissionReview", http.StatusBadRequest)
		return
	}
	if review.Request.Resource != pods {
		http.Error(answer, "the review is not of a pod", http.StatusBadRequest)
		return
	}
	if err := checkPod(review.Request.Object.Raw); err != nil {
		http.Error(answer, err.Error(), http.StatusBadRequest)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), readTime)
	defer cancel()
	// One each: the source of random numbers in it is not for several goroutines.
	modifier := handler.NewModifier(nil, handler.WithAnnotationDomain(domain), handler.WithRegion(c.Region),
		handler.WithServiceAccountCache(&accounts{webhook: w, ctx: ctx, cluster: c}),
		handler.WithContainerCredentialsConfig(&associations{webhook: w, ctx: ctx, cluster: c}))
	review.Response = modifier.MutatePod(&review)
	review.Response.UID = review.Request.UID
	review.Request = nil
	answer.Header().Set("Content-Type", "application/json")
	// A write fails only when the API server has gone.
	_ = json.NewEncoder(answer).Encode(review)
}

// serviceAccount returns the settings of a service account.
func (w *Webhook) serviceAccount(ctx context.Context, c record.Cluster, namespace, name string) (
	cache.Response, error) {
	known, key := w.knownSettings(c.ID), namespace+"/"+name
	found, changes, ok := known.get(key)
	if ok {
		return found, nil
	}
	api, err := w.clients.Get(ctx, c)
	if err != nil {
		return cache.Response{}, err
	}
	known.start(w.o.Log.With("cluster", c.Name), func(ctx context.Context) error {
		return known.watch(ctx, api.Core.ServiceAccounts(metav1.NamespaceAll))
	})
	// From the API server's memory, in half of the time, unless it does not have it yet. Upstream's cache is no younger.
	account, err := api.Core.ServiceAccounts(namespace).Get(ctx, name, metav1.GetOptions{ResourceVersion: "0"})
	if apierrors.IsNotFound(err) {
		account, err = api.Core.ServiceAccounts(namespace).Get(ctx, name, metav1.GetOptions{})
	}
	if err != nil {
		w.clients.DropUnreachable(c.ID, api, err)
		return cache.Response{}, err
	}
	found = settings(account)
	known.add(key, found, changes)
	return found, nil
}

// accounts is upstream's view of the service accounts of a cluster, for one review.
type accounts struct {
	webhook *Webhook
	ctx     context.Context
	cluster record.Cluster
}

// Get is part of cache.ServiceAccountCache.
func (a *accounts) Get(request cache.Request) cache.Response {
	found, err := a.webhook.serviceAccount(a.ctx, a.cluster, request.Namespace, request.Name)
	if err != nil {
		a.webhook.o.Log.Warn("a pod gets no role: its service account cannot be read", "cluster", a.cluster.Name,
			"namespace", request.Namespace, "serviceAccount", client.Cut(request.Name), "error", client.Cut(err.Error()))
		return cache.Response{TokenExpiration: identity.DefaultTokenExpiration}
	}
	return found
}

// roleARN is the form of the ARN of a role: a path of at most 512 characters, and a name of at most 64. Others than
// those letters take more room in JSON.
var roleARN = regexp.MustCompile(`^arn:aws[a-z-]{0,16}:iam::\d{12}:role/[\w+=,.@/-]{1,576}$`)

// settings returns what the annotations of a service account ask for. Those that are too long for what they are count
// as missing.
//
// https://docs.aws.amazon.com/eks/latest/userguide/pod-configuration.html
func settings(account *corev1.ServiceAccount) cache.Response {
	annotation := func(name string) string { return account.Annotations[domain+"/"+name] }
	s := cache.Response{FoundInCache: true, Audience: audience, UseRegionalSTS: true,
		TokenExpiration: identity.DefaultTokenExpiration}
	if role := annotation(identity.RoleARNAnnotation); roleARN.MatchString(role) {
		s.RoleARN = role
	}
	if other := annotation(identity.AudienceAnnotation); other != "" && len(other) <= maxAudience {
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

// associations is upstream's view of the pod identity associations of a cluster, for one review.
type associations struct {
	webhook *Webhook
	ctx     context.Context
	cluster record.Cluster
}

// Get is part of containercredentials.Config.
func (a *associations) Get(namespace, serviceAccount string) *containercredentials.PatchConfig {
	associated, err := a.webhook.o.Associated(a.ctx, a.cluster, namespace, serviceAccount)
	if err != nil {
		a.webhook.o.Log.Warn("a pod gets no role: the pod identity associations cannot be read", "cluster",
			a.cluster.Name, "namespace", namespace, "serviceAccount", client.Cut(serviceAccount), "error", err)
	}
	if !associated {
		return nil
	}
	url := credentialsURL
	if a.cluster.IPFamily == ekstypes.IpFamilyIpv6 {
		url = credentialsURLv6
	}
	return &containercredentials.PatchConfig{Audience: credentialsAudience, MountPath: credentialsMount,
		VolumeName: credentialsVolume, TokenPath: credentialsVolume, FullUri: url}
}
