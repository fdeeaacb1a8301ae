// Package eksauth serves the Amazon EKS Auth API: the agent of EKS Pod Identity on a node takes the token of a pod's
// service account to it, and gets credentials of the role that an association gives the service account.
//
// The API server of the cluster verifies the token, so that one of a pod or service account that is gone is refused
// like one of another cluster.
//
// https://docs.aws.amazon.com/eks/latest/APIReference/API_auth_AssumeRoleForPodIdentity.html
package eksauth

import (
	"context"
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eksauth"
	"github.com/aws/aws-sdk-go-v2/service/eksauth/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/coracle-eks/coracle/internal/aws/eks/principal"
	"github.com/coracle-eks/coracle/internal/aws/eks/resource"
	"github.com/coracle-eks/coracle/internal/aws/iam/identity"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// Audience is that of the tokens that the API takes.
const Audience = "pods.eks.amazonaws.com"

// ErrInvalidToken is the error of a token that the API server of a cluster does not accept. Its text may follow.
var ErrInvalidToken = errors.New("the token is not valid")

// Pod is whose a token is.
type Pod struct{ Namespace, ServiceAccount, Name, UID string }

// STS is the part of the STS API that is called with the credentials of a pod's role.
type STS interface {
	AssumeRole(context.Context, *sts.AssumeRoleInput, ...func(*sts.Options)) (*sts.AssumeRoleOutput, error)
}

// Options configures a Service. All are required but Now.
type Options struct {
	Store    *store.Store
	Identity *identity.Identity
	// Review has the API server of a cluster verify a token for [Audience]. The error is ErrInvalidToken for one that it
	// does not accept, or that is not bound to a pod; others mean that it could not be asked.
	Review func(ctx context.Context, c record.Cluster, token string) (Pod, error)
	// STS returns a client of STS in a region.
	STS func(region string, who aws.CredentialsProvider) STS
	Now func() time.Time // time.Now unless set
}

// Service serves EKS Auth. Its exported methods are operations.
type Service struct {
	o            Options
	clusters     store.Table[record.Cluster]
	associations store.Table[record.PodIdentityAssociation]
}

// New returns the service.
func New(o Options) *Service {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Service{o: o, clusters: record.Clusters(o.Store), associations: record.PodIdentityAssociations(o.Store)}
}

// Register serves the operations.
// https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazoneksauth.html
func (s *Service) Register(mux *wire.Mux) {
	mux.Register(wire.EKSAuth, wire.Handle(s.AssumeRoleForPodIdentity, s.onCluster))
}

// clusterOf returns the cluster of a name in the account and region of the caller.
func (s *Service) clusterOf(ctx context.Context, name *string) (record.Cluster, error) {
	key := record.ClusterKey(wire.CallerFrom(ctx).Account, wire.RegionFrom(ctx), aws.ToString(name))
	row, err := s.clusters.Get(ctx, key)
	return row.Value, err
}

// onCluster returns the cluster that a request names, whether or not it exists, as its authorization target.
func (s *Service) onCluster(ctx context.Context, action string, in *eksauth.AssumeRoleForPodIdentityInput) (
	[]wire.Target, error) {
	c, err := s.clusterOf(ctx, in.ClusterName)
	if errors.Is(err, store.ErrNotFound) {
		c = record.Cluster{Account: wire.CallerFrom(ctx).Account, Region: wire.RegionFrom(ctx),
			Name: aws.ToString(in.ClusterName)}
	} else if err != nil {
		return nil, err
	}
	t := wire.Target{Action: action, Resource: c.ARN(), Conditions: map[string][]string{}}
	for key, value := range c.Tags {
		t.Conditions["aws:ResourceTag/"+key] = []string{value}
	}
	return []wire.Target{t}, nil
}

// AssumeRoleForPodIdentity gives the holder of a pod's token credentials of the role of its service account.
func (s *Service) AssumeRoleForPodIdentity(ctx context.Context, in *eksauth.AssumeRoleForPodIdentityInput) (
	*eksauth.AssumeRoleForPodIdentityOutput, error) {
	c, err := s.clusterOf(ctx, in.ClusterName)
	if errors.Is(err, store.ErrNotFound) {
		return nil, &types.ResourceNotFoundException{
			Message: new("No cluster found for name: " + aws.ToString(in.ClusterName) + ".")}
	} else if err != nil {
		return nil, err
	}
	if err := s.checkToken(aws.ToString(in.Token)); err != nil {
		return nil, err
	}
	pod, err := s.o.Review(ctx, c, aws.ToString(in.Token))
	switch {
	case errors.Is(err, ErrInvalidToken):
		return nil, &types.InvalidTokenException{Message: new(err.Error())}
	case err != nil && ctx.Err() != nil:
		return nil, err
	case err != nil:
		return nil, &types.ServiceUnavailableException{Message: new("The token could not be verified, because the API " +
			"server of cluster " + c.Name + " does not answer: " + err.Error())}
	}
	association, err := s.associationOf(ctx, c, pod)
	if err != nil {
		return nil, err
	}
	session, err := s.assume(ctx, c, association, pod)
	if err != nil {
		return nil, err
	}
	return &eksauth.AssumeRoleForPodIdentityOutput{
		AssumedRoleUser: session.user, Audience: new(Audience), Credentials: session.credentials,
		PodIdentityAssociation: &types.PodIdentityAssociation{
			AssociationArn: new(association.ARN()), AssociationId: new(association.ID)},
		Subject: &types.Subject{Namespace: new(pod.Namespace), ServiceAccount: new(pod.ServiceAccount)},
	}, nil
}

// algorithms are those with which API servers sign tokens.
var algorithms = []jose.SignatureAlgorithm{jose.RS256, jose.ES256, jose.ES384, jose.ES512}

// checkToken refuses what is no token, or has expired, without asking an API server. Nothing is verified here.
func (s *Service) checkToken(text string) error {
	var claims jwt.Claims
	token, err := jwt.ParseSigned(text, algorithms)
	if err == nil {
		err = token.UnsafeClaimsWithoutVerification(&claims)
	}
	if err != nil {
		return &types.InvalidTokenException{Message: new("The token cannot be parsed as that of a service account.")}
	}
	if now := s.o.Now(); claims.Expiry != nil && !now.Before(claims.Expiry.Time()) {
		return &types.ExpiredTokenException{Message: new("The token expired at " +
			claims.Expiry.Time().UTC().Format(time.RFC3339) + "; it is " + now.UTC().Format(time.RFC3339) + ".")}
	}
	return nil
}

// associationOf returns the association of a pod's service account.
func (s *Service) associationOf(ctx context.Context, c record.Cluster, pod Pod) (record.PodIdentityAssociation, error) {
	p, found, err := resource.AssociationOf(ctx, s.associations, c, pod.Namespace, pod.ServiceAccount)
	if err != nil || found {
		return p, err
	}
	return record.PodIdentityAssociation{}, &types.ResourceNotFoundException{Message: new("No pod identity " +
		"association found in cluster " + c.Name + " for service account " + pod.ServiceAccount + " of namespace " +
		pod.Namespace + ".")}
}

// tagsOf returns the session tags of a pod.
func tagsOf(c record.Cluster, pod Pod) map[string]string {
	tags := principal.PodTags(c, pod.Namespace, pod.ServiceAccount)
	tags["kubernetes-pod-name"], tags["kubernetes-pod-uid"] = pod.Name, pod.UID
	return tags
}
