// Package vpcresource has the admission webhooks of EKS's VPC resource controller. One requests a branch network
// interface for the pods that a SecurityGroupPolicy selects. The others keep who is not the controller from saying
// which interface a pod has, and aws-node from changing more of nodes than it needs to.
//
// The policies and service accounts are read of the API server that asks. The names, decisions and messages are those
// of upstream: https://github.com/aws/amazon-vpc-resource-controller-k8s/tree/master/webhooks/core
package vpcresource

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/coracle-eks/coracle/internal/kube/client"
	"github.com/coracle-eks/coracle/internal/kube/clientcache"
	"github.com/coracle-eks/coracle/internal/kube/securitygrouppolicy"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/turn"
)

const (
	// User is the Kubernetes user of the VPC resource controller.
	User = "eks:vpc-resource-controller"
	// UserAgent is its user agent in the audit log.
	UserAgent = "controller/v0.0.0 (linux/amd64) kubernetes/$Format"

	// PodENI is the resource that a pod with a branch network interface requests, and the annotation that has it.
	PodENI = "vpc.amazonaws.com/pod-eni"

	// maxReview is the maximum size in bytes of what is read of a review: of the two objects of an update, that may be
	// 256 KiB of annotations each, of which JSON makes six times as much where they have nothing but "<". maxHead is that
	// of a review whose objects are not read.
	maxReview, maxHead = 4 << 20, 16 << 10
	// maxAccount is the size in bytes of the reviews of all clusters of an account that are answered at a time, and
	// maxCluster of those of one cluster. Others wait. Each counts for minReview at least.
	maxAccount, maxCluster, minReview = 16 << 20, 8 << 20, 64 << 10
	// maxNamespaceReads, maxClusterReads and maxAccountReads are how many pods' policies are read at a time, of a
	// namespace, of a cluster and of all clusters of an account. Whoever writes the policies of one namespace, or the API
	// server of one cluster, decides how long that takes.
	maxNamespaceReads, maxClusterReads, maxAccountReads = 2, 4, 64
	// readPart is how much smaller the pages and the list of policies are than those that are read elsewhere.
	readPart = 16
	// waitTime bounds how long a review waits for others, and readTime what is read of an API server for it. An API server
	// admits what has no answer after 30 seconds.
	waitTime, readTime = 10 * time.Second, 10 * time.Second
)

// Webhook answers the admission reviews of all clusters.
type Webhook struct {
	log     *slog.Logger
	clients *clientcache.Cache

	mutations, validations share
	// Places for reads of API servers; those of a namespace have the ID of its cluster in their names.
	namespaceReads, clusterReads, accountReads *turn.Places
}

// share bounds the bytes of reviews. Validations, which wait for nothing, do not wait for mutations.
type share struct{ cluster, account *turn.Places }

func newShare() share { return share{turn.Each(maxCluster), turn.Each(maxAccount)} }

// New returns a Webhook. config returns the configuration of a client of a cluster's API server as [User].
func New(config func(ctx context.Context, c record.Cluster) (*rest.Config, error), log *slog.Logger) *Webhook {
	return &Webhook{log: log, clients: clientcache.New(config, UserAgent), mutations: newShare(),
		validations: newShare(), namespaceReads: turn.Each(maxNamespaceReads), clusterReads: turn.Each(maxClusterReads),
		accountReads: turn.Each(maxAccountReads)}
}

// Configurations returns the objects by which an API server sends reviews to a URL, whose certificate the authority in
// PEM has issued. Their names and values are those of EKS, except for the URL.
func Configurations(url string, authority []byte) []*unstructured.Unstructured {
	webhook := func(name, path, resource string, operations ...any) map[string]any {
		return map[string]any{
			"name":                    name,
			"admissionReviewVersions": []any{"v1"},
			"clientConfig": map[string]any{"url": url + path,
				"caBundle": base64.StdEncoding.EncodeToString(authority)},
			"failurePolicy": "Ignore",
			"matchPolicy":   "Equivalent",
			"rules": []any{map[string]any{"apiGroups": []any{""}, "apiVersions": []any{"v1"},
				"operations": operations, "resources": []any{resource}, "scope": "*"}},
			"sideEffects":    "None",
			"timeoutSeconds": int64(30),
		}
	}
	object := func(kind, name string, webhooks ...any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": map[string]any{"name": name},
			"webhooks": webhooks,
		}}
	}
	mutating := webhook("mpod.vpc.k8s.aws", "/mutate-v1-pod", "pods", "CREATE")
	mutating["reinvocationPolicy"] = "Never"
	return []*unstructured.Unstructured{
		object("MutatingWebhookConfiguration", "vpc-resource-mutating-webhook", mutating),
		object("ValidatingWebhookConfiguration", "vpc-resource-validating-webhook",
			webhook("vnode.vpc.k8s.aws", "/validate-v1-node", "nodes", "UPDATE"),
			webhook("vpod.vpc.k8s.aws", "/validate-v1-pod", "pods", "CREATE", "UPDATE")),
	}
}

// Forget drops what is kept of a cluster that is gone.
func (w *Webhook) Forget(clusterID string) { w.clients.Forget(clusterID) }

// kind is one of the webhooks.
type kind struct {
	share    share
	resource string
	fields   fields
	decide   func(ctx context.Context, c record.Cluster, request *request) (*admissionv1.AdmissionResponse, error)
}

// request is what an API server asks.
type request struct {
	*admissionv1.AdmissionRequest
	// unread is the answer to who would look at the objects; nil unless they were not read, or not as far as is needed.
	unread *admissionv1.AdmissionResponse
}

// MutatePod answers an admission review of a new pod of a cluster.
func (w *Webhook) MutatePod(answer http.ResponseWriter, r *http.Request, c record.Cluster) {
	w.review(answer, r, c, kind{w.mutations, "pods", mutationFields, w.mutatePod})
}

// ValidatePod answers an admission review of a new or changed pod.
func (w *Webhook) ValidatePod(answer http.ResponseWriter, r *http.Request, c record.Cluster) {
	w.review(answer, r, c, kind{w.validations, "pods", validationFields, validatePod})
}

// ValidateNode answers an admission review of a changed node.
func (w *Webhook) ValidateNode(answer http.ResponseWriter, r *http.Request, c record.Cluster) {
	w.review(answer, r, c, kind{w.validations, "nodes", nodeFields, validateNode})
}

// review answers an admission review. An HTTP error, or no answer, admits the object as it is: the failure policy is
// Ignore. So nobody gets one for the size of an object, or for what others do at the same time.
func (w *Webhook) review(answer http.ResponseWriter, r *http.Request, c record.Cluster, k kind) {
	size := r.ContentLength
	if size < 0 || size > maxReview {
		size = maxReview
	}
	reads, most := k.fields, maxReview
	var unread *admissionv1.AdmissionResponse
	waiting, cancel := context.WithTimeout(r.Context(), waitTime)
	shrink, err := turn.ReserveBoth(waiting, max(size, minReview), k.share.cluster, c.ID, k.share.account, c.Account)
	cancel()
	if err != nil {
		reads, most, unread = reviewFields(nil, nil), maxHead, deny("too many objects are reviewed at once, try again")
	} else {
		defer shrink(0)
	}
	content, partial, err := prune(r.Body, reads, most)
	var review admissionv1.AdmissionReview
	if err == nil {
		err = json.Unmarshal(content, &review)
	}
	if err != nil || review.Request == nil ||
		review.GroupVersionKind() != admissionv1.SchemeGroupVersion.WithKind("AdmissionReview") {
		http.Error(answer, "the request body is not an AdmissionReview of admission.k8s.io/v1", http.StatusBadRequest)
		return
	}
	if unread == nil {
		shrink(max(int64(len(content)), minReview))
		if partial {
			unread = deny(fmt.Sprintf("the labels, annotations and resources of the object take more than %d MiB of JSON",
				maxReview>>20))
		}
	}
	// The administrator of a cluster can have any object sent here.
	if want := (metav1.GroupVersionResource{Version: "v1", Resource: k.resource}); review.Request.Resource != want ||
		review.Request.SubResource != "" {
		http.Error(answer, "the review is not of "+k.resource, http.StatusBadRequest)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), readTime)
	defer cancel()
	if review.Response, err = k.decide(ctx, c, &request{review.Request, unread}); err != nil {
		http.Error(answer, err.Error(), http.StatusBadRequest)
		return
	}
	review.Response.UID = review.Request.UID
	review.Request = nil
	answer.Header().Set("Content-Type", "application/json")
	// A write fails only when the API server has gone.
	_ = json.NewEncoder(answer).Encode(review)
}

func allow() *admissionv1.AdmissionResponse { return &admissionv1.AdmissionResponse{Allowed: true} }

func deny(reason string) *admissionv1.AdmissionResponse {
	return &admissionv1.AdmissionResponse{Result: &metav1.Status{Message: reason, Reason: metav1.StatusReasonForbidden,
		Code: http.StatusForbidden}}
}

// groups returns the security groups of the policies that select a pod; none when no policy does.
func (w *Webhook) groups(ctx context.Context, c record.Cluster, namespace string, p pod) ([]string, error) {
	ctx, leave, err := w.namespaceReads.Acquire(ctx, c.ID+"/"+namespace)
	if err != nil {
		return nil, err
	}
	defer leave()
	release, err := turn.AcquireBoth(ctx, 1, w.clusterReads, c.ID, w.accountReads, c.Account)
	if err != nil {
		return nil, err
	}
	defer release()
	api, err := w.clients.Get(ctx, c)
	if err != nil {
		return nil, err
	}
	groups, err := Groups(ctx, Reader{Objects: api.Objects, Core: api.Core}, namespace, p.Labels,
		p.Spec.ServiceAccountName)
	if err != nil {
		w.clients.DropUnreachable(c.ID, api, err)
	}
	return groups, err
}

// Reader reads what Groups asks about.
type Reader struct {
	Objects dynamic.Interface
	Core    corev1client.CoreV1Interface
}

// Groups returns the security groups that the policies of a namespace have for a pod with labels and a service account;
// none when no policy selects it. A cluster without the definition of policies has none.
func Groups(ctx context.Context, api Reader, namespace string, labels map[string]string,
	serviceAccount string) (groups []string, err error) {
	var account map[string]string
	var failed error
	known := false
	_, err = client.EachPage(client.WithPart(ctx, readPart), metav1.ListOptions{},
		api.Objects.Resource(securitygrouppolicy.Resource).Namespace(namespace).List,
		func(page *unstructured.UnstructuredList) {
			for i := range page.Items {
				policy, ok := securitygrouppolicy.Parse(&page.Items[i])
				if !ok || failed != nil {
					continue
				}
				if policy.ServiceAccounts != nil && !known {
					a, err := api.Core.ServiceAccounts(namespace).Get(ctx, serviceAccount, metav1.GetOptions{})
					if failed = err; err != nil {
						return
					}
					account, known = a.Labels, true
				}
				if policy.Selects(labels, account) {
					groups = securitygrouppolicy.AddGroups(groups, policy)
				}
			}
		})
	if failed != nil {
		return nil, fmt.Errorf("read service account %s of the pod: %w", serviceAccount, failed)
	}
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list SecurityGroupPolicies: %w", err)
	}
	return groups, nil
}
