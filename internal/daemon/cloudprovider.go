package daemon

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/coracle-eks/coracle/internal/controller/controlplane"
	"github.com/coracle-eks/coracle/internal/controller/vpcresource"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// credentialsPrefix begins the URLs of credentials; the cluster's ID follows.
const credentialsPrefix = "/credentials/"

// cloudProvider returns what the cloud controller manager of a cluster needs to call AWS under the cluster's role, as
// on EKS. It gets the role's credentials as a container does: from a URL, for a token that only it and the daemon know,
// and anew before they end. The result stays the same while the daemon listens on the same address.
//
// https://docs.aws.amazon.com/sdkref/latest/guide/feature-container-credentials.html
func (d *daemon) cloudProvider(c record.Cluster) (controlplane.CloudProvider, error) {
	endpoint := EndpointURL(d.settings.Listen)
	token, err := d.credentialsToken(c)
	if err != nil {
		return controlplane.CloudProvider{}, err
	}
	return controlplane.CloudProvider{Endpoint: endpoint, Env: []string{
		"AWS_REGION=" + c.Region,
		"AWS_ENDPOINT_URL=" + endpoint,
		"AWS_CONTAINER_CREDENTIALS_FULL_URI=" + endpoint + credentialsPrefix + c.ID,
		"AWS_CONTAINER_AUTHORIZATION_TOKEN=" + token,
	}}, nil
}

// credentialsToken derives the token from a secret of the cluster that never changes: its first service-account key,
// which outlives its rotation.
func (d *daemon) credentialsToken(c record.Cluster) (string, error) {
	secrets, err := record.ControlPlaneSecretsTable(d.store).Get(context.Background(), c.Key())
	if err == nil && secrets.Value.ClusterID != c.ID {
		err = store.ErrNotFound
	}
	if err != nil {
		return "", fmt.Errorf("the keys of cluster %s: %w", c.Name, err)
	}
	mac := hmac.New(sha256.New, secrets.Value.ServiceAccountKey)
	mac.Write([]byte("credentials of the cloud controller manager"))
	return hex.EncodeToString(mac.Sum(nil)), nil
}

// serveCredentials serves a cloud controller manager credentials of its cluster's role.
func (d *daemon) serveCredentials(w http.ResponseWriter, r *http.Request) {
	answer := func(status int, body any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(body) // the client is gone
	}
	type refusal struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	id := strings.TrimPrefix(r.URL.Path, credentialsPrefix)
	cluster, err := d.clusterByID(r.Context(), id)
	var token string
	if err == nil {
		token, err = d.credentialsToken(cluster)
	}
	// Whether a cluster exists is nobody's business who does not know its token.
	if err != nil || !hmac.Equal([]byte(token), []byte(r.Header.Get("Authorization"))) {
		answer(http.StatusUnauthorized, refusal{"AccessDenied", "the authorization token is not that of this cluster"})
		return
	}
	provider, err := d.clusterCredentials(r.Context(), cluster)
	if err != nil {
		answer(http.StatusForbidden, refusal{"AccessDenied", err.Error()})
		return
	}
	credentials, err := provider.Retrieve(r.Context())
	if err != nil {
		d.log.Error("credentials for a cloud controller manager", "cluster", cluster.Name, "error", err)
		answer(http.StatusInternalServerError, refusal{"InternalFailure", "the daemon's log says why"})
		return
	}
	answer(http.StatusOK, map[string]string{
		"AccessKeyId": credentials.AccessKeyID, "SecretAccessKey": credentials.SecretAccessKey,
		"Token":      credentials.SessionToken,
		"Expiration": credentials.Expires.UTC().Format(time.RFC3339), "RoleArn": cluster.RoleARN,
	})
}

// clusterCredentials returns the credentials of the role of a cluster, as long as the role lets EKS assume it.
func (d *daemon) clusterCredentials(ctx context.Context, c record.Cluster) (aws.CredentialsProvider, error) {
	role, err := d.api.identity.RoleByARN(ctx, c.RoleARN)
	if err == nil {
		var trusted bool
		if trusted, err = d.api.identity.Trusts(ctx, c.RoleARN, "eks.amazonaws.com"); err == nil && !trusted {
			err = errors.New("its trust policy no longer lets eks.amazonaws.com assume it")
		}
	}
	if err != nil {
		return nil, fmt.Errorf("the role %s of cluster %s: %w", c.RoleARN, c.Name, err)
	}
	return d.api.identity.ServiceRoleCredentials(role.Account, role.Name, "EKS"), nil
}

// clusterEC2 returns a client of EC2 with the permissions of the role of a cluster.
func (d *daemon) clusterEC2(ctx context.Context, c record.Cluster) (vpcresource.EC2, error) {
	credentials, err := d.clusterCredentials(ctx, c)
	if err != nil {
		return nil, err
	}
	return ec2.NewFromConfig(d.api.clientConfig(c.Region, credentials)), nil
}

// clusterByID finds a cluster by its ID, without a look at any other: whoever reaches the endpoint can ask for it.
func (d *daemon) clusterByID(ctx context.Context, id string) (record.Cluster, error) {
	issuer, err := record.Issuers(d.store).Get(ctx, store.Key(id))
	if err != nil {
		return record.Cluster{}, err
	}
	of := issuer.Value
	row, err := record.Clusters(d.store).Get(ctx, record.ClusterKey(of.Account, of.Region, of.Cluster))
	if err == nil && row.Value.ID != id { // its name belongs to a new cluster now
		err = fmt.Errorf("cluster %q: %w", id, store.ErrNotFound)
	}
	if err != nil {
		return record.Cluster{}, err
	}
	return row.Value, nil
}
