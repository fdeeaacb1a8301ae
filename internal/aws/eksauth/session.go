package eksauth

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	awscredentials "github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/eksauth/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"
	"github.com/google/uuid"

	"github.com/coracle-eks/coracle/internal/aws/eks/principal"
	"github.com/coracle-eks/coracle/internal/aws/iam/identity"
	"github.com/coracle-eks/coracle/internal/aws/iam/policy"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

const (
	// podSession is the lifetime of the credentials of a role, targetSession that of those of a target role, which are
	// got by role chaining.
	podSession    = 6 * time.Hour
	targetSession = time.Hour

	// namePart is the length of the names of the cluster and of the pod in the name of a session, which with a UUID has
	// 64 characters at most.
	namePart = 10
)

// session is what a pod gets.
type session struct {
	user        *types.AssumedRoleUser
	credentials *types.Credentials
}

// assume returns a session of the role of an association, or of its target role, for a pod.
func (s *Service) assume(ctx context.Context, c record.Cluster, p record.PodIdentityAssociation, pod Pod) (
	*session, error) {
	role, err := s.o.Identity.RoleByARN(ctx, p.RoleARN)
	if errors.Is(err, store.ErrNotFound) {
		return nil, denied("the role %s of association %s does not exist", p.RoleARN, p.ID)
	} else if err != nil {
		return nil, err
	}
	var tags map[string]string
	if !p.DisableSessionTags {
		tags = tagsOf(c, pod)
	}
	now := s.o.Now().UTC().Truncate(time.Second)
	sealed := &identity.Session{
		Account: role.Account, Role: role.Name, PrincipalID: role.ID, Issued: now, Expires: now.Add(podSession),
		Name: fmt.Sprintf("eks-%.*s-%.*s-%s", namePart, c.Name, namePart, pod.Name, uuid.NewString()),
		Tags: tags, TransitiveTags: slices.Sorted(maps.Keys(tags)),
	}
	keys, actions := principal.PodTrust(p, tags)
	keys["sts:RoleSessionName"] = []string{sealed.Name}
	for _, action := range actions {
		d, err := s.o.Identity.AuthorizeTrusted(ctx, role, policy.Principal{Type: policy.Service, Name: principal.Pods},
			"system:serviceaccount:"+pod.Namespace+":"+pod.ServiceAccount, action, keys)
		if err != nil {
			return nil, err
		}
		if !d.Allowed() {
			return nil, denied("the trust policy of %s does not allow %s to perform %s for this pod", p.RoleARN,
				principal.Pods, action)
		}
	}
	if p.SessionPolicy != "" && p.TargetRoleARN == "" {
		sealed.Policies = []string{p.SessionPolicy}
	}
	token, err := s.o.Identity.Seal(ctx, sealed)
	if err != nil {
		return nil, err
	}
	if p.TargetRoleARN != "" {
		return s.assumeTarget(ctx, c, p, sealed, token)
	}
	return &session{
		user: &types.AssumedRoleUser{
			Arn:          new("arn:aws:sts::" + sealed.Account + ":assumed-role/" + sealed.Role + "/" + sealed.Name),
			AssumeRoleId: new(sealed.PrincipalID + ":" + sealed.Name),
		},
		credentials: &types.Credentials{AccessKeyId: new(sealed.AccessKeyID), SecretAccessKey: new(sealed.Secret),
			SessionToken: new(token), Expiration: new(sealed.Expires)},
	}, nil
}

// assumeTarget returns a session of the target role of an association, assumed by a session of its role.
func (s *Service) assumeTarget(ctx context.Context, c record.Cluster, p record.PodIdentityAssociation,
	of *identity.Session, token string) (*session, error) {
	who := awscredentials.NewStaticCredentialsProvider(of.AccessKeyID, of.Secret, token)
	in := &sts.AssumeRoleInput{RoleArn: new(p.TargetRoleARN), RoleSessionName: new(of.Name),
		ExternalId: new(p.ExternalID), DurationSeconds: new(int32(targetSession / time.Second))}
	if p.SessionPolicy != "" {
		in.Policy = new(p.SessionPolicy)
	}
	out, err := s.o.STS(c.Region, who).AssumeRole(ctx, in)
	var answer *awshttp.ResponseError
	var refused smithy.APIError
	if errors.As(err, &answer) && answer.HTTPStatusCode() < 500 && errors.As(err, &refused) {
		return nil, denied("the role %s cannot assume its target role: %s: %s", p.RoleARN, refused.ErrorCode(),
			refused.ErrorMessage())
	} else if err != nil {
		return nil, err
	}
	return &session{
		user: &types.AssumedRoleUser{Arn: out.AssumedRoleUser.Arn, AssumeRoleId: out.AssumedRoleUser.AssumedRoleId},
		credentials: &types.Credentials{AccessKeyId: out.Credentials.AccessKeyId,
			SecretAccessKey: out.Credentials.SecretAccessKey, SessionToken: out.Credentials.SessionToken,
			Expiration: aws.Time(*out.Credentials.Expiration)},
	}, nil
}

func denied(format string, args ...any) error {
	return &types.AccessDeniedException{Message: new("Unauthorized Exception! EKS does not have permissions to assume " +
		"the associated role: " + fmt.Sprintf(format, args...) + ".")}
}
