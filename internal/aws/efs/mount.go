package efs

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/efs/types"
	kmstypes "github.com/aws/aws-sdk-go-v2/service/kms/types"

	"github.com/coracle-eks/coracle/internal/aws/iam/identity"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/aws/wire/sigv4"
	"github.com/coracle-eks/coracle/internal/filesystem"
	"github.com/coracle-eks/coracle/internal/record"
)

var _ filesystem.Authorizer = (*Service)(nil)

// The actions of NFS clients.
// https://docs.aws.amazon.com/efs/latest/ug/iam-access-control-nfs-efs.html
const (
	clientMount      = "elasticfilesystem:ClientMount"
	clientWrite      = "elasticfilesystem:ClientWrite"
	clientRootAccess = "elasticfilesystem:ClientRootAccess"
)

// defaultPolicy is in effect for file systems without a policy: it lets everybody who reaches a mount target.
var defaultPolicy = func() string {
	text, err := json.Marshal(map[string]any{"Version": "2012-10-17", "Statement": []any{map[string]any{
		"Effect": "Allow", "Principal": "*", "Resource": "*",
		"Action":    []string{clientMount, clientWrite, clientRootAccess},
		"Condition": map[string]any{"Bool": map[string]any{"elasticfilesystem:AccessedViaMountTarget": "true"}},
	}}})
	if err != nil {
		panic(err) // strings
	}
	return string(text)
}()

func refused(code, message string) error {
	return &filesystem.RefusedError{Code: code, Message: message}
}

// refusal turns an error of the API into the refusal of a mount.
func refusal(err error) error {
	var api interface {
		error
		ErrorCode() string
		ErrorMessage() string
	}
	var signature *sigv4.Error
	switch {
	case errors.As(err, &signature):
		return refused(signature.JSONCode(), signature.Message)
	case errors.Is(err, wire.ErrUnknownAccessKey):
		return refused("UnrecognizedClientException", "The security token included in the request is invalid.")
	case errors.Is(err, wire.ErrExpiredToken):
		return refused("ExpiredTokenException", "The security token included in the request is expired")
	case errors.As(err, &api):
		return refused(api.ErrorCode(), api.ErrorMessage())
	}
	return err
}

// AuthorizeMount decides whether an NFS client may mount a file system, and what it may do then: by the policies of the
// file system and of the client.
func (s *Service) AuthorizeMount(ctx context.Context, r filesystem.MountRequest) (filesystem.MountGrant, error) {
	g, err := s.findMount(ctx, r)
	if err != nil {
		return filesystem.MountGrant{}, refusal(err)
	}
	var caller wire.Caller
	if r.Signed != "" {
		if !r.TLS {
			return filesystem.MountGrant{}, refused("AccessDenied", "The mount option iam needs the mount option tls.")
		}
		if caller, err = s.verifyClient(ctx, r); err != nil {
			return filesystem.MountGrant{}, refusal(err)
		}
	}
	request := (&http.Request{}).WithContext(ctx)
	if r.TLS {
		request.TLS = &tls.ConnectionState{}
	}
	// The policies are compared three times, on behalf of one request.
	ctx = identity.ShareBudget(wire.NewContext(request, caller, r.Region, s.identity, s.now()))
	for _, ask := range []struct {
		action  string
		refused *bool
	}{{clientMount, nil}, {clientWrite, &g.ReadOnly}, {clientRootAccess, &g.SquashRoot}} {
		err := s.authorizeClient(ctx, caller, clientTarget(ask.action, caller, g))
		var denied *wire.Denied
		switch {
		case err == nil:
		case errors.As(err, &denied) && ask.refused != nil:
			*ask.refused = true
		case errors.As(err, &denied):
			who := caller.ARN
			if who == "" {
				who = "An anonymous client"
			}
			return filesystem.MountGrant{}, refused("AccessDenied", who+" is "+denied.Error())
		default:
			return filesystem.MountGrant{}, err
		}
	}
	return g, nil
}

// findMount finds what a client wants to mount, in a state in which it can be mounted.
func (s *Service) findMount(ctx context.Context, r filesystem.MountRequest) (filesystem.MountGrant, error) {
	at := place{r.Account, r.Region}
	f, err := of(ctx, s.fileSystems, name{at, r.FileSystemID})
	if err != nil {
		return filesystem.MountGrant{}, err
	}
	if f.ID == "" {
		return filesystem.MountGrant{}, fileSystemNotFound(r.FileSystemID)
	}
	if err := s.requireAvailable(ctx, f); err != nil {
		return filesystem.MountGrant{}, err
	}
	m, err := of(ctx, s.mountTargets, name{at, r.MountTargetID})
	if err != nil {
		return filesystem.MountGrant{}, err
	}
	if m.FileSystemID != f.ID {
		return filesystem.MountGrant{}, mountTargetNotFound(r.MountTargetID)
	}
	status, err := s.statusOf(ctx, m)
	if err != nil {
		return filesystem.MountGrant{}, err
	}
	if state := m.State(status); state != types.LifeCycleStateAvailable {
		return filesystem.MountGrant{}, incorrectMountTargetState(m.ID, state)
	}
	if err := s.requireKey(ctx, f); err != nil {
		return filesystem.MountGrant{}, err
	}
	g := filesystem.MountGrant{FileSystem: f}
	if r.AccessPointID == "" {
		return g, nil
	}
	if !r.TLS {
		return g, refused("AccessDenied", "The mount option accesspoint needs the mount option tls.")
	}
	a, err := of(ctx, s.accessPoints, name{at, r.AccessPointID})
	if err != nil {
		return g, err
	}
	if a.FileSystemID != f.ID {
		return g, accessPointNotFound(r.AccessPointID)
	}
	g.AccessPoint = &a
	return g, nil
}

// requireKey demands that the KMS key of an encrypted file system can be used.
// https://docs.aws.amazon.com/efs/latest/ug/managing-encrypt.html
func (s *Service) requireKey(ctx context.Context, f record.FileSystem) error {
	if !f.Encrypted {
		return nil
	}
	parts := strings.SplitN(f.KMSKeyID, ":", 6) // arn:aws:kms:eu-west-1:111122223333:key/...
	if len(parts) != 6 {
		return refused("AccessDenied", "The KMS key of the file system is "+f.KMSKeyID+", which is no key.")
	}
	k, err := of(ctx, s.kmsKeys, name{place{parts[4], parts[3]}, strings.TrimPrefix(parts[5], "key/")})
	if err != nil {
		return err
	}
	if k.State != kmstypes.KeyStateEnabled {
		return refused("AccessDenied", "The KMS key "+f.KMSKeyID+" of the file system is not enabled, or has been deleted.")
	}
	return nil
}

// verifyClient returns the principal that signed a request to mount, as efs-utils signs it.
func (s *Service) verifyClient(ctx context.Context, r filesystem.MountRequest) (wire.Caller, error) {
	u := &url.URL{Scheme: "https", Host: r.FileSystemID, Path: "/", RawQuery: r.Signed}
	signature, err := sigv4.ParseURL(u, http.Header{})
	if err != nil {
		return wire.Caller{}, err
	}
	query, err := url.ParseQuery(r.Signed)
	if err != nil || query.Get("Action") != "Connect" || signature.Service != wire.EFS.SigningName ||
		signature.Region != r.Region {
		return wire.Caller{}, refused("AccessDenied", "The client's request is not signed for the action Connect of "+
			wire.EFS.SigningName+" in "+r.Region+".")
	}
	if s.now().Sub(signature.Date) > sigv4.ClockSkew { // whatever life it has given itself
		return wire.Caller{}, refused("InvalidSignatureException", "The client's request was signed more than 15 minutes "+
			"ago: a client signs when it mounts.")
	}
	secret, caller, err := s.identity.Lookup(ctx, signature.AccessKeyID, signature.SessionToken)
	if err != nil {
		return wire.Caller{}, err
	}
	return caller, signature.Verify(nil, secret, s.now())
}

// clientTarget returns the target of an action of an NFS client.
func clientTarget(action string, caller wire.Caller, g filesystem.MountGrant) wire.Target {
	f := g.FileSystem
	t := wire.Target{Action: action, Resource: f.ARN(), Policy: f.Policy, PolicyIDs: f.PolicyIDs,
		Conditions: resourceTags(f.Tags)}
	if t.Policy == "" {
		t.Policy = defaultPolicy
	}
	if caller.Account != f.Account {
		t.Owner = f.Account
	}
	t.Conditions["elasticfilesystem:AccessedViaMountTarget"] = []string{"true"}
	if g.AccessPoint != nil {
		t.Conditions["elasticfilesystem:AccessPointArn"] = []string{g.AccessPoint.ARN()}
	}
	return t
}

// authorizeClient asks whether an NFS client may do something.
func (s *Service) authorizeClient(ctx context.Context, caller wire.Caller, t wire.Target) error {
	if caller.ARN == "" {
		return s.identity.AuthorizeAnonymous(ctx, t)
	}
	return s.identity.Authorize(ctx, caller, []wire.Target{t})
}
