package controlplane

import (
	"context"
	"errors"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"k8s.io/client-go/rest"

	"github.com/coracle-eks/coracle/internal/aws/apierror"
	"github.com/coracle-eks/coracle/internal/kube/client"
	"github.com/coracle-eks/coracle/internal/record"
)

// checkHealth returns what is wrong with a cluster after a reconcile pass that ended with err, and when to check
// again because of it.
func (c *Controller) checkHealth(cluster record.Cluster, err error) (
	issues []ekstypes.ClusterIssue, after time.Duration) {
	add := func(code ekstypes.ClusterIssueCode, message string, resources ...string) {
		issues = append(issues, ekstypes.ClusterIssue{Code: code, Message: &message, ResourceIds: resources})
	}
	for _, s := range c.o.Host.List(cluster.ID + "/") {
		if s.Deaths == 0 || s.Running && c.clock.Since(s.Started) > recovered {
			continue
		}
		after = recovered + time.Second
		if s.Deaths >= tooOften {
			add(ekstypes.ClusterIssueCodeInternalFailure, record.Reason(c.crashError(s).Error()), componentOf(s.Name))
		}
	}
	if code, message := c.checkSecretsKey(cluster); code != "" {
		add(code, message, cluster.EncryptionKeyARN)
	}
	if err != nil && !errors.Is(err, errSecretsKey) {
		add(issueCode(err), record.Reason(err.Error()), cluster.Name)
	}
	return issues, after
}

// recovered is the time that a process must run after a death until its earlier deaths no longer count.
const recovered = 20 * time.Second

// issueCode returns EKS's code for the cause of an error.
func issueCode(err error) ekstypes.ClusterIssueCode {
	switch apierror.Code(err) {
	case "InvalidSubnetID.NotFound":
		return ekstypes.ClusterIssueCodeEc2SubnetNotFound
	case "InvalidGroup.NotFound", "InvalidSecurityGroupID.NotFound":
		return ekstypes.ClusterIssueCodeEc2SecurityGroupNotFound
	case "InvalidVpcID.NotFound":
		return ekstypes.ClusterIssueCodeVpcNotFound
	case "InsufficientFreeAddressesInSubnet":
		return ekstypes.ClusterIssueCodeInsufficientFreeAddresses
	case "UnauthorizedOperation", "AccessDenied":
		return ekstypes.ClusterIssueCodeAccessDenied
	}
	return ekstypes.ClusterIssueCodeInternalFailure
}

// awaitHealthy waits until a component other than the API server says that it is well.
func (c *Controller) awaitHealthy(ctx context.Context, p plane, name string) error {
	config := &rest.Config{TLSClientConfig: rest.TLSClientConfig{CAData: p.keys.trusted.bundle()}}
	clients, err := client.New(config, p.cluster.Name, "")
	if err != nil {
		return err
	}
	defer clients.Close()
	return c.waitForAnswer(ctx, name, c.o.UpgradeTimeout, func(ctx context.Context) error {
		_, err := getHealth(ctx, clients.HTTP, healthURL(p, componentOf(name)))
		return err
	})
}
