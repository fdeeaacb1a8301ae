package cloudtrail

import (
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/coracle-eks/coracle/internal/aws/iam/identity"
	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// userIdentity says who made a request.
// https://docs.aws.amazon.com/awscloudtrail/latest/userguide/cloudtrail-event-reference-user-identity.html
type userIdentity struct {
	Type             string          `json:"type"`
	PrincipalID      string          `json:"principalId,omitempty"`
	ARN              string          `json:"arn,omitempty"`
	AccountID        string          `json:"accountId,omitempty"`
	AccessKeyID      string          `json:"accessKeyId,omitempty"`
	UserName         string          `json:"userName,omitempty"`
	SessionContext   *sessionContext `json:"sessionContext,omitempty"`
	InvokedBy        string          `json:"invokedBy,omitempty"`
	IdentityProvider string          `json:"identityProvider,omitempty"`
}

type sessionContext struct {
	SessionIssuer *sessionIssuer    `json:"sessionIssuer,omitempty"`
	WebIDData     *webIDData        `json:"webIdFederationData,omitempty"`
	Attributes    sessionAttributes `json:"attributes"`
	Source        string            `json:"sourceIdentity,omitempty"`
}

type sessionIssuer struct {
	Type        string `json:"type"`
	PrincipalID string `json:"principalId"`
	ARN         string `json:"arn"`
	AccountID   string `json:"accountId"`
	UserName    string `json:"userName,omitempty"`
}

type webIDData struct {
	FederatedProvider string   `json:"federatedProvider"`
	Attributes        struct{} `json:"attributes"`
}

type sessionAttributes struct {
	CreationDate     string `json:"creationDate"`
	MFAAuthenticated string `json:"mfaAuthenticated"`
}

// identityOf returns who made a request, and the name by which LookupEvents finds them: that of a user, or of a role's
// session.
func identityOf(caller wire.Caller) (u userIdentity, name string) {
	u = userIdentity{Type: "IAMUser", PrincipalID: caller.UserID, ARN: caller.ARN, AccountID: caller.Account,
		AccessKeyID: caller.AccessKeyID, InvokedBy: caller.Service}
	session := identity.SessionOf(caller)
	if session != nil && !session.Issued.IsZero() {
		u.SessionContext = &sessionContext{Source: session.SourceIdentity, Attributes: sessionAttributes{
			CreationDate: session.Issued.UTC().Format(time.RFC3339), MFAAuthenticated: "false"}}
		if session.Provider != "" {
			u.SessionContext.WebIDData = &webIDData{FederatedProvider: session.Provider}
		}
	}
	issuer := sessionIssuer{Type: "Role", ARN: caller.PrincipalARN, AccountID: caller.Account}
	if session != nil {
		issuer.PrincipalID, issuer.UserName = session.PrincipalID, session.Role
	}
	switch {
	case session != nil && session.Role != "":
		u.Type = "AssumedRole"
	case session != nil && session.Federated:
		u.Type = "FederatedUser"
		issuer.Type, issuer.UserName = "IAMUser", session.User
		if session.User == "" {
			issuer.Type = "Root"
		}
	case strings.HasSuffix(caller.ARN, ":root"):
		u.Type = "Root"
		return u, "root"
	default:
		u.UserName = caller.ARN[strings.LastIndexByte(caller.ARN, '/')+1:]
		return u, u.UserName
	}
	if u.SessionContext != nil {
		u.SessionContext.SessionIssuer = &issuer
	}
	return u, caller.SessionName
}

// bearerOf returns who exchanged a token for credentials, in an operation that has no signature, and the account of the
// role; false for another operation.
func bearerOf(a *wire.Answered) (u userIdentity, name, account string, ok bool) {
	out, ok := a.Output.(*sts.AssumeRoleWithWebIdentityOutput)
	if !ok || out.AssumedRoleUser == nil {
		return u, "", "", false
	}
	parts := strings.SplitN(aws.ToString(out.AssumedRoleUser.Arn), ":", 6)
	if len(parts) != 6 {
		return u, "", "", false
	}
	provider, subject := aws.ToString(out.Provider), aws.ToString(out.SubjectFromWebIdentityToken)
	return userIdentity{
		Type: "WebIdentityUser", PrincipalID: provider + ":" + aws.ToString(out.Audience) + ":" + subject,
		UserName: subject, IdentityProvider: provider,
	}, subject, parts[4], true
}
