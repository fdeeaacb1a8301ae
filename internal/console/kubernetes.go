package console

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// bearerProtocol begins the subprotocol of a WebSocket that holds a token, for browsers set no headers there.
// https://kubernetes.io/docs/reference/access-authn-authz/authentication/#putting-a-bearer-token-in-a-request
const bearerProtocol = "base64url.bearer.authorization.k8s.io."

// clusterResource is the resource that errors about clusters name.
var clusterResource = schema.GroupResource{Group: "eks.amazonaws.com", Resource: "clusters"}

// serveKubernetes sends a request on to the API server of a cluster in the account of whoever signed its token. The
// API server authenticates and authorizes it again.
func (c *Console) serveKubernetes(w http.ResponseWriter, r *http.Request) {
	fail := func(err error) { c.options.APIServers.Error(w, r, err) }
	region, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, kubernetesPrefix), "/")
	name, _, _ := strings.Cut(rest, "/")
	if !isSameOrigin(r) {
		fail(apierrors.NewForbidden(clusterResource, name, errors.New("the request is from a page of another origin")))
		return
	}
	token := tokenOf(r)
	if token == "" {
		fail(apierrors.NewUnauthorized("the request has no token of EKS (aws eks get-token), as \"Authorization: " +
			"Bearer\" or in the subprotocol " + bearerProtocol + "<base64url>"))
		return
	}
	account, refused, err := c.options.Account(r.Context(), token, name)
	if err != nil {
		if refused {
			err = apierrors.NewUnauthorized(err.Error())
		}
		fail(err)
		return
	}
	cluster, err := c.options.Clusters.Get(r.Context(), record.ClusterKey(account, region, name))
	if errors.Is(err, store.ErrNotFound) {
		missing := apierrors.NewNotFound(clusterResource, name)
		missing.ErrStatus.Message = fmt.Sprintf("account %s has no cluster %q in region %q", account, name, region)
		err = missing
	}
	if err == nil {
		err = checkSource(r, cluster.Value)
	}
	if err != nil {
		fail(err)
		return
	}
	http.StripPrefix(kubernetesPrefix+region+"/"+name, http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			c.options.APIServers.ServeCluster(w, r, cluster.Value.ID)
		},
	)).ServeHTTP(w, r)
}

// checkSource returns an error for a client whom publicAccessCidrs of the cluster do not admit: the request is sent on
// from this host. Of clients on the host, the endpoint itself decides.
func checkSource(r *http.Request, cluster record.Cluster) error {
	allowed, err := cluster.PublicSources()
	source := sourceOf(r)
	if err != nil || allowed == nil || source.IsLoopback() ||
		slices.ContainsFunc(allowed, func(p netip.Prefix) bool { return p.Contains(source) }) {
		return err
	}
	return apierrors.NewForbidden(clusterResource, cluster.Name,
		fmt.Errorf("publicAccessCidrs of the cluster do not have your address %s", source))
}

// tokenOf returns the token of a request; empty if it has none.
func tokenOf(r *http.Request) string {
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		return strings.TrimSpace(token)
	}
	for _, line := range r.Header.Values("Sec-WebSocket-Protocol") {
		for protocol := range strings.SplitSeq(line, ",") {
			encoded, ok := strings.CutPrefix(strings.TrimSpace(protocol), bearerProtocol)
			if !ok {
				continue
			}
			if token, err := base64.RawURLEncoding.DecodeString(encoded); err == nil {
				return string(token)
			}
		}
	}
	return ""
}
