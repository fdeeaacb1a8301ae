package authenticator

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/turn"
)

const userAgent = "aws-iam-authenticator (coracle)"

// Options configures an [Authenticator].
type Options struct {
	Store *store.Store
	// STS answers presigned GetCallerIdentity requests: the in-process transport of wire.Mux.
	STS http.RoundTripper
	// Service returns the AWS service that signed a request, given the answer of STS, and nothing for everybody else:
	// wire.ServiceOf. Without it nobody is a role of EKS's own.
	Service func(answer *http.Response) string
	// Own reports which hosts in presigned URLs are this daemon's endpoint; see [OwnHosts].
	Own func(host string) bool
	// RESTConfig returns the configuration of a client of a cluster's API server as user eks:authenticator. An error
	// means "not yet"; the call is repeated.
	RESTConfig func(ctx context.Context, c record.Cluster) (*rest.Config, error)
	// Instances is a client of EC2 in the cluster's account and region. Without it
	// {{EC2PrivateDNSName}} cannot be filled in.
	Instances func(c record.Cluster) Instances
	// Admission answers admission reviews; without it there are none.
	Admission Admission
	// Fargate answers the admission reviews of Fargate's webhooks; without it there are none.
	Fargate Reviewer
	// VPCResource answers those of the webhooks of the VPC resource controller; without it there are none.
	VPCResource VPCResource
	// Dir is a cluster's directory; the log is log/authenticator.log below it.
	Dir func(clusterID string) string
	// Log is the daemon's own log; slog.Default() unless set.
	Log *slog.Logger
	// Now is time.Now unless set.
	Now func() time.Time
}

// Reviewer is an admission webhook of all clusters.
type Reviewer interface {
	// Review answers an admission review that a cluster's API server sends.
	Review(w http.ResponseWriter, r *http.Request, c record.Cluster)
}

// Admission is an admission webhook that keeps something of clusters.
type Admission interface {
	Reviewer
	// Forget drops what is kept of a cluster that is gone.
	Forget(clusterID string)
}

// VPCResource has the admission webhooks of the VPC resource controller.
type VPCResource interface {
	MutatePod(w http.ResponseWriter, r *http.Request, c record.Cluster)
	ValidatePod(w http.ResponseWriter, r *http.Request, c record.Cluster)
	ValidateNode(w http.ResponseWriter, r *http.Request, c record.Cluster)
	// Forget drops what is kept of a cluster that is gone.
	Forget(clusterID string)
}

// Authenticator serves the webhooks of all clusters. [Authenticator.Run] must run beside it.
type Authenticator struct {
	clusters      store.Table[record.Cluster]
	controlPlanes store.Table[record.ControlPlane]
	issuers       store.Table[record.Issuer]
	entries       store.Table[record.AccessEntry]
	roles         store.Table[record.Role]
	users         store.Table[record.User]
	machines      store.Table[record.Machine]
	fargateNodes  store.Index[record.Instance]
	fargatePods   store.Index[record.FargatePod]

	sts         http.RoundTripper
	service     func(*http.Response) string
	own         func(string) bool
	restConfig  func(context.Context, record.Cluster) (*rest.Config, error)
	instances   func(record.Cluster) Instances
	admission   Admission
	vpcResource VPCResource
	dir         func(string) string
	log         *slog.Logger
	now         func() time.Time

	mux *http.ServeMux

	// Apart from each other, so that unknown tokens do not keep users whose tokens are known from what they do.
	authentications, authorizations *turns
	// Of the validations of aws-auth, in bytes.
	validationsOfCluster, validationsOfAccount *turn.Places
	// Of the reviews that are decoded for them.
	decoding *turn.Places

	mu     sync.Mutex
	served map[string]*served // by cluster ID
}

// New returns an Authenticator.
func New(o Options) *Authenticator {
	a := &Authenticator{
		clusters:      record.Clusters(o.Store),
		controlPlanes: record.ControlPlanes(o.Store),
		issuers:       record.Issuers(o.Store),
		entries:       record.AccessEntries(o.Store),
		sts:           o.STS,
		service:       o.Service,
		own:           o.Own,
		restConfig:    o.RESTConfig,
		instances:     o.Instances,
		admission:     o.Admission,
		dir:           o.Dir,
		log:           o.Log,
		now:           o.Now,
		roles:         record.Roles(o.Store),
		users:         record.Users(o.Store),
		machines:      record.Machines(o.Store),
		fargateNodes:  record.FargateMachinesByNode(o.Store),
		fargatePods:   record.FargatePodsByCapacity(o.Store),
		served:        map[string]*served{},

		authentications: newTurns(),
		authorizations:  newTurns(),

		validationsOfCluster: turn.Each(maxClusterValidations),
		validationsOfAccount: turn.Each(maxAccountValidations),
		decoding:             turn.Shared(decodersOfAll, decodersOfAll-decodersOfAccount),
	}
	if a.log == nil {
		a.log = slog.Default()
	}
	if a.service == nil {
		a.service = func(*http.Response) string { return "" }
	}
	if a.now == nil {
		a.now = time.Now
	}
	a.mux = http.NewServeMux()
	a.mux.HandleFunc("POST /clusters/{id}/authenticate", a.withCluster(inTurn(a.authentications, a.authenticate)))
	a.mux.HandleFunc("POST /clusters/{id}/authorize", a.withCluster(inTurn(a.authorizations, a.authorize)))
	a.mux.HandleFunc("POST /clusters/{id}/aws-auth", a.withCluster(a.validate))
	if a.admission != nil {
		a.mux.HandleFunc("POST /clusters/{id}/mutate", a.withCluster(a.admission.Review))
	}
	if o.Fargate != nil {
		a.mux.HandleFunc("POST /clusters/{id}/fargate", a.withCluster(o.Fargate.Review))
	}
	if v := o.VPCResource; v != nil {
		a.vpcResource = v
		a.mux.HandleFunc("POST /clusters/{id}/mutate-v1-pod", a.withCluster(v.MutatePod))
		a.mux.HandleFunc("POST /clusters/{id}/validate-v1-pod", a.withCluster(v.ValidatePod))
		a.mux.HandleFunc("POST /clusters/{id}/validate-v1-node", a.withCluster(v.ValidateNode))
	}
	return a
}

// ServeHTTP answers POST /clusters/<ID>/authenticate, /clusters/<ID>/authorize, and the admission reviews of the other
// paths. The caller must have shown the client certificate of that cluster's
// API server, verified by the TLS listener ([TLSConfig]).
func (a *Authenticator) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mux.ServeHTTP(w, r)
}

// withCluster admits the API server of the cluster that the path names.
func (a *Authenticator) withCluster(serve func(http.ResponseWriter, *http.Request, record.Cluster)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		id := r.PathValue("id")
		if !admitted(r.TLS, id) {
			http.Error(w, "the client certificate is not that of the API server of cluster "+id, http.StatusForbidden)
			return
		}
		// STS and EC2 are asked within the bound, and with the turn of the review: whose requests these are, the signer of
		// the token chooses.
		r = r.WithContext(store.Bounded(r.Context(), mostRead))
		c, err := a.cluster(r.Context(), id)
		switch {
		case errors.Is(err, store.ErrNotFound):
			http.Error(w, "no cluster has the ID "+id, http.StatusNotFound)
		case err != nil:
			http.Error(w, err.Error(), http.StatusInternalServerError)
		default:
			serve(w, r, c)
		}
	}
}

// inTurn serves a review once it has its turn.
func inTurn(
	t *turns, serve func(http.ResponseWriter, *http.Request, record.Cluster),
) func(http.ResponseWriter, *http.Request, record.Cluster) {
	return func(w http.ResponseWriter, r *http.Request, c record.Cluster) {
		end, err := t.begin(r.Context(), c)
		if err != nil {
			askAgain(w, err)
			return
		}
		defer end()
		serve(w, r, c)
	}
}

// askAgain has the API server send a review again: it does so after 429, 500 and 504, and not after 503.
// https://pkg.go.dev/k8s.io/apiserver/pkg/util/webhook#DefaultShouldRetry
func askAgain(w http.ResponseWriter, err error) {
	http.Error(w, err.Error(), http.StatusTooManyRequests)
}

// cluster returns the cluster with that ID.
func (a *Authenticator) cluster(ctx context.Context, id string) (record.Cluster, error) {
	issuer, err := a.issuers.Get(ctx, store.Key(id))
	if err != nil {
		return record.Cluster{}, err
	}
	row, err := a.clusters.Get(ctx, record.ClusterKey(issuer.Value.Account, issuer.Value.Region, issuer.Value.Cluster))
	if err != nil {
		return record.Cluster{}, err
	}
	if row.Value.ID != id {
		return record.Cluster{}, store.ErrNotFound // its name belongs to a new cluster now
	}
	return row.Value, nil
}

// decodeReview reads a review, or answers that there is none.
func decodeReview(w http.ResponseWriter, r *http.Request, review any) bool {
	if err := json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(review); err != nil {
		http.Error(w, "the request body is not a review: "+err.Error(), http.StatusBadRequest)
		return false
	}
	return true
}

func writeReview(w http.ResponseWriter, review any) {
	w.Header().Set("Content-Type", "application/json")
	// A write fails only when the API server has gone; it asks again.
	_ = json.NewEncoder(w).Encode(review)
}

func (a *Authenticator) logFile(clusterID string) string {
	return filepath.Join(a.dir(clusterID), "log", "authenticator.log")
}
