package daemon

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/coracle-eks/coracle/internal/aws/eks/principal"
	"github.com/coracle-eks/coracle/internal/aws/iam/identity"
	"github.com/coracle-eks/coracle/internal/aws/iam/policy"
	"github.com/coracle-eks/coracle/internal/controller/capability"
	"github.com/coracle-eks/coracle/internal/controller/controlplane"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// newCapabilities returns the controller of EKS capabilities.
func (d *daemon) newCapabilities(planes *controlplane.Controller) *capability.Controller {
	return capability.New(capability.Options{
		Store: d.store, Dir: d.dir.Join("capabilities"), Host: d.processes, Programs: d.host.components,
		Config: planes.Config, Token: d.capabilityToken, Subscribe: d.events.subscribe, Log: d.log,
	})
}

// capabilityToken returns a token of the role of a capability for its cluster, as "aws eks get-token" makes it of
// credentials that EKS has assumed the role for.
func (d *daemon) capabilityToken(ctx context.Context, c record.Capability, roleARN, session string) (string, error) {
	denied := func(reason string) error {
		return &capability.AccessDenied{Reason: fmt.Sprintf("Amazon EKS cannot assume the role %s: %s.", roleARN, reason)}
	}
	role, err := d.api.identity.RoleByARN(ctx, roleARN)
	if errors.Is(err, store.ErrNotFound) {
		return "", denied("it does not exist")
	} else if err != nil {
		return "", err
	}
	trust, err := identity.TrustDecision(ctx, role, policy.Principal{
		Type: policy.Service, Name: principal.Capabilities,
	}, "sts:AssumeRole", principal.CapabilityTrust(c))
	if err != nil {
		return "", err
	}
	if !trust.Allowed() {
		return "", denied("its trust policy does not let " + principal.Capabilities + " assume it")
	}
	client := sts.NewFromConfig(aws.Config{
		Region: c.Region, BaseEndpoint: aws.String(EndpointURL(d.settings.Listen)),
		Credentials: d.api.identity.ServiceRoleCredentials(role.Account, role.Name, session),
	})
	presigner := sts.NewPresignClient(client, sts.WithPresignClientFromClientOptions(sts.WithAPIOptions(
		smithyhttp.SetHeaderValue("X-K8s-Aws-Id", c.Cluster),
		smithyhttp.SetHeaderValue("X-Amz-Expires", "60"),
	)))
	request, err := presigner.PresignGetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return "", err
	}
	return "k8s-aws-v1." + base64.RawURLEncoding.EncodeToString([]byte(request.URL)), nil
}
