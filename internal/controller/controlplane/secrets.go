package controlplane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/smithy-go"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"

	"github.com/coracle-eks/coracle/internal/kube/client"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// kmsProvider is the name of the KMS provider: what it has encrypted begins with k8s:enc:kms:v2:<name>:.
const kmsProvider = "aws-encryption-provider"

// ensureSecretsPlugin serves the KMS plugin of a cluster with an encryption config before its API server starts, and
// returns the endpoint; empty for other clusters.
func (c *Controller) ensureSecretsPlugin(cluster record.Cluster) (string, error) {
	if cluster.EncryptionKeyARN == "" || c.o.Secrets == nil {
		return "", nil
	}
	return c.o.Secrets.Ensure(cluster)
}

// encryptSecretsAgain encrypts the Secrets that a cluster had before its encryption config, if one of the open updates
// has given it one: a write of a Secret, even one that changes nothing, encrypts it with the provider of now. What
// takes longer than an upgrade may goes on in another pass, after the last Secret of this one.
func (c *Controller) encryptSecretsAgain(ctx context.Context, p plane, open []store.Row[record.Update]) error {
	if !slices.ContainsFunc(open, func(r store.Row[record.Update]) bool {
		return r.Value.Type == ekstypes.UpdateTypeAssociateEncryptionConfig
	}) {
		return nil
	}
	clients, err := c.bootstrapClient(p)
	if err != nil {
		return err
	}
	defer clients.Close()
	names, err := metadata.NewForConfigAndClient(clients.Config, clients.HTTP)
	if err != nil {
		return err
	}
	secrets := schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	ctx, cancel := context.WithTimeoutCause(ctx, c.o.UpgradeTimeout, errTimeout)
	defer cancel()
	last := c.lastEncrypted(p.cluster.ID)
	var all []string
	_, err = client.EachPage(client.WithPartial(ctx), metav1.ListOptions{}, names.Resource(secrets).List,
		func(page *metav1.PartialObjectMetadataList) {
			for _, o := range page.Items {
				if name := o.Namespace + "/" + o.Name; name > last {
					all = append(all, name)
				}
			}
		})
	if err != nil {
		return fmt.Errorf("list the Secrets of cluster %s: %w", p.cluster.Name, err)
	}
	slices.Sort(all)
	for i, of := range all {
		namespace, name, _ := strings.Cut(of, "/")
		_, err := clients.Core.Secrets(namespace).Patch(ctx, name, types.MergePatchType, []byte("{}"),
			metav1.PatchOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("encrypt Secret %s of cluster %s again, with %d left: %w", of, p.cluster.Name, len(all)-i,
				err)
		}
		c.setLastEncrypted(p.cluster.ID, of)
	}
	c.setLastEncrypted(p.cluster.ID, "")
	c.log.Info("Secrets are encrypted with the KMS key", "cluster", p.cluster.Name, "secrets", len(all), "key",
		p.cluster.EncryptionKeyARN)
	return nil
}

// lastEncrypted returns the last Secret of a cluster that was encrypted again while others are to be; empty before the
// first.
func (c *Controller) lastEncrypted(clusterID string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.encrypted[clusterID]
}

func (c *Controller) setLastEncrypted(clusterID, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.encrypted[clusterID] = name; name == "" {
		delete(c.encrypted, clusterID)
	}
}

// errSecretsKey is wrapped by errors that have their cause in the KMS key of a cluster.
var errSecretsKey = errors.New("the KMS key of its Secrets cannot be used")

// secretsKeyError returns why the KMS key of a cluster cannot be used; nil when it can, and for a cluster without one.
func (c *Controller) secretsKeyError(cluster record.Cluster) error {
	if cluster.EncryptionKeyARN == "" || c.o.Secrets == nil {
		return nil
	}
	if err := c.o.Secrets.Health(cluster.ID); err != nil {
		return fmt.Errorf("%s of cluster %s is not ready: %w: %w", kubeAPIServer, cluster.Name, errSecretsKey, err)
	}
	return nil
}

// checkSecretsKey returns the issue of a cluster whose KMS key cannot be used; no code when it can.
func (c *Controller) checkSecretsKey(cluster record.Cluster) (ekstypes.ClusterIssueCode, string) {
	err := c.secretsKeyError(cluster)
	if err == nil {
		return "", ""
	}
	message := fmt.Sprintf("Secrets cannot be encrypted and decrypted with the KMS key %s", cluster.EncryptionKeyARN)
	var api smithy.APIError
	if !errors.As(err, &api) {
		return ekstypes.ClusterIssueCodeInternalFailure, message + ": " + record.Reason(err.Error())
	}
	message += ": " + api.ErrorCode() + ": " + record.Reason(api.ErrorMessage())
	switch code := api.ErrorCode(); {
	case code == "DisabledException":
		return ekstypes.ClusterIssueCodeKmsKeyDisabled, message
	case code == "NotFoundException":
		return ekstypes.ClusterIssueCodeKmsKeyNotFound, message
	case code == "AccessDeniedException":
		return ekstypes.ClusterIssueCodeKmsGrantRevoked, message
	case code == "KMSInvalidStateException" && strings.Contains(message, "pending deletion"):
		return ekstypes.ClusterIssueCodeKmsKeyMarkedForDeletion, message
	}
	return ekstypes.ClusterIssueCodeInternalFailure, message
}
