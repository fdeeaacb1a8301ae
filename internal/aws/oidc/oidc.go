// Package oidc serves the OpenID Connect discovery documents of clusters, by which anybody
// verifies the tokens of their service accounts: IAM for roles of service accounts, and third
// parties such as Vault or another cluster.
//
// The issuer in the tokens and in the document is EKS's, https://oidc.eks.<region>.amazonaws.com/id/<ID>.
// That name does not lead here by itself, so the documents are served at every name and port
// that does: below /id/ of the main endpoint, in plain text and over TLS. jwks_uri is in the form
// in which the document was asked for, so that who reached the one reaches the other:
//
//   - A verifier that takes a discovery URL beside the issuer (discoveryURL in Kubernetes'
//     AuthenticationConfiguration) or only the keys' (jwks_url in Vault) is given the endpoint's.
//   - A verifier that insists on the issuer's own name resolves it to the endpoint, whose TLS
//     certificate has the name too. Machines and their pods do, and where there are machines
//     also this host.
//
// Requests are not signed, as on AWS. The package reads the table of issuers and writes nothing.
// https://docs.aws.amazon.com/eks/latest/userguide/iam-roles-for-service-accounts.html
package oidc

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// Prefix begins the paths of all documents.
const Prefix = "/id/"

// cacheControl is for the documents: keys are added to a set that much earlier than they sign, and stay longer than
// their tokens. It is what an API server says of its own.
const cacheControl = "public, max-age=3600"

// document is a discovery document with the members that EKS gives.
// https://openid.net/specs/openid-connect-discovery-1_0.html#ProviderMetadata
type document struct {
	Issuer                 string   `json:"issuer"`
	JWKSURI                string   `json:"jwks_uri"`
	AuthorizationEndpoint  string   `json:"authorization_endpoint"`
	ResponseTypesSupported []string `json:"response_types_supported"`
	SubjectTypesSupported  []string `json:"subject_types_supported"`
	ClaimsSupported        []string `json:"claims_supported"`
	SigningAlgorithms      []string `json:"id_token_signing_alg_values_supported"`
}

// Handler serves GET /id/<ID>/.well-known/openid-configuration and /id/<ID>/keys. Requests under EKS's own name for
// clusters that are not in the store go to elsewhere (optional).
func Handler(s *store.Store, elsewhere http.Handler, log *slog.Logger) http.Handler {
	h := handler{issuers: record.Issuers(s), elsewhere: elsewhere, log: log}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+Prefix+"{id}/.well-known/openid-configuration", h.document)
	mux.HandleFunc("GET "+Prefix+"{id}/keys", h.serveKeys)
	return mux
}

type handler struct {
	issuers   store.Table[record.Issuer]
	elsewhere http.Handler
	log       *slog.Logger
}

func (h handler) document(w http.ResponseWriter, r *http.Request) {
	issuer, ok := h.findIssuer(w, r)
	if !ok {
		return
	}
	id := r.PathValue("id")
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	body, err := json.Marshal(document{
		Issuer:                 record.IssuerURL(issuer.Region, id),
		JWKSURI:                scheme + "://" + r.Host + Prefix + id + "/keys",
		AuthorizationEndpoint:  "urn:kubernetes:programmatic_authorization",
		ResponseTypesSupported: []string{"id_token"},
		SubjectTypesSupported:  []string{"public"},
		ClaimsSupported:        []string{"sub", "iss"},
		SigningAlgorithms:      []string{"RS256"},
	})
	if err != nil {
		h.writeError(w, r, err)
		return
	}
	h.writeDocument(w, r, body)
}

func (h handler) serveKeys(w http.ResponseWriter, r *http.Request) {
	if issuer, ok := h.findIssuer(w, r); ok {
		h.writeDocument(w, r, issuer.JWKS)
	}
}

// findIssuer finds the issuer that the path names, or answers that there is none. Under EKS's own
// name for a region only the clusters of the region are found.
func (h handler) findIssuer(w http.ResponseWriter, r *http.Request) (record.Issuer, bool) {
	row, err := h.issuers.Get(r.Context(), store.Key(r.PathValue("id")))
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		h.writeError(w, r, err)
		return record.Issuer{}, false
	}
	host, _, _ := strings.Cut(r.Host, ":")
	ownName := strings.HasPrefix(host, "oidc.eks.")
	if err != nil && ownName && h.elsewhere != nil {
		h.elsewhere.ServeHTTP(w, r)
		return record.Issuer{}, false
	}
	if err != nil || ownName && host != record.IssuerHost(row.Value.Region) {
		// A cluster of that ID may be about to appear.
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		h.writeBody(r, w, []byte(`{"message":"Not Found"}`))
		return record.Issuer{}, false
	}
	return row.Value, true
}

func (h handler) writeDocument(w http.ResponseWriter, r *http.Request, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", cacheControl)
	h.writeBody(r, w, body)
}

func (h handler) writeError(w http.ResponseWriter, r *http.Request, err error) {
	h.log.Error("cannot serve OIDC discovery", "path", r.URL.Path, "error", err)
	http.Error(w, `{"message":"Internal Server Error"}`, http.StatusInternalServerError)
}

func (h handler) writeBody(r *http.Request, w http.ResponseWriter, body []byte) {
	if _, err := w.Write(body); err != nil {
		h.log.Debug("client of OIDC discovery went away", "path", r.URL.Path, "error", err)
	}
}
